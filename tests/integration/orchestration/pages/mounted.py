"""The plugin's application as Airflow's API server mounts it, with logins that are real."""

from airflow import settings
from airflow.api_fastapi.app import create_auth_manager, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models import import_all_models
from airflow.models.base import Base
from fastapi import FastAPI


def mounted() -> FastAPI:
    """The application below its prefix, over a database of Airflow's."""
    from opboost_ops.orchestration.plugin import PREFIX, OpBoostPlugin

    settings.configure_orm()
    # A login asks it whether it was revoked, and the pages ask for runs.
    import_all_models()
    Base.metadata.create_all(settings.engine)
    create_auth_manager()
    (found,) = OpBoostPlugin.fastapi_apps
    assert found["url_prefix"] == f"/{PREFIX}"
    parent = FastAPI()
    parent.mount(found["url_prefix"], found["app"])
    return parent


def reader_token() -> str:
    """What the least of Airflow's users is given at login."""
    user = SimpleAuthManagerUser(username="reader", role="viewer")
    return str(get_auth_manager().generate_jwt(user))
