"""Who may look: Airflow's login, and its permissions on DAGs."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from fastapi import Depends

#: Of the pages as a whole: anyone who may see the plugins, and so their navigation.
LOGGED_IN = Depends(requires_access_view(AccessView.PLUGINS))


def _dag_reader(user: Annotated[Any, Depends(get_user)]) -> Callable[[str], bool]:
    def may_see(dag: str) -> bool:
        details = DagDetails(id=dag)
        manager = get_auth_manager()
        entity = DagAccessEntity.RUN
        return bool(
            manager.is_authorized_dag(
                method="GET", access_entity=entity, details=details, user=user
            )
        )

    # A page asks often for the same one.
    return cache(may_see)


#: Tells of a DAG whether its runs may be shown to anyone who asks.
SeesDag = Annotated[Callable[[str], bool], Depends(_dag_reader)]
