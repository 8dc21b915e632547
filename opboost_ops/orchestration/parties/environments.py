"""The environment variables of each component, made from nothing: nobody inherits anything."""

import json
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.orchestration.parties.places import Places
from opboost_ops.orchestration.parties.records import Secrets, State
from opboost_ops.orchestration.parties.servers import (
    USER,
    broker_url,
    database_url,
    unacknowledged,
)
from opboost_ops.orchestration.processes import settings

#: Tasks are forked from the worker, so what it has imported costs them nothing.
LOCAL_SETTINGS = """import sys

if "celery" in sys.argv:
    from opboost_ops.orchestration.preload import preload

    preload()
"""

_OWN_SECRETS = "airflow.secrets.local_filesystem.LocalFilesystemBackend"

#: Tasks that a party's worker runs at the same time.
CONCURRENCY = 2


def coordinator(
    places: Places, python: Path, state: State, secrets: Secrets, more: Mapping[str, object]
) -> dict[str, str]:
    """Of the scheduler, the DAG processor and the API server.

    Args:
        places: Where things lie.
        python: Of the parties' environment.
        state: With the ports.
        secrets: The coordinator's.
        more: Other settings of Airflow by ``section.option``.
    """
    url = broker_url(state, USER, secrets.broker)
    return {
        **_common(places, python, places.coordinator),
        **_airflow(python, state, url),
        **settings(
            {
                "api.host": "127.0.0.1",
                "api.port": state.ports.api,
                "api.base_url": f"http://127.0.0.1:{state.ports.api}",
                "api.secret_key": secrets.pages,
                "api.workers": 1,
                "api_auth.jwt_secret": secrets.tokens,
                # An API server that is busy answers late; a token must live as long.
                "api_auth.jwt_leeway": 60,
                "core.dags_are_paused_at_creation": False,
                "core.fernet_key": secrets.fernet,
                "core.simple_auth_manager_passwords_file": places.passwords,
                "core.simple_auth_manager_users": "admin:admin",
                # One file makes the DAGs of all federations.
                "dag_processor.dag_file_processor_timeout": 600,
                "dag_processor.min_file_process_interval": 10,
                "dag_processor.refresh_interval": 10,
                "database.sql_alchemy_conn": database_url(state, secrets),
                "scheduler.scheduler_idle_sleep_time": 0.1,
                **more,
            }
        ),
    }


def worker(
    places: Places,
    python: Path,
    state: State,
    secrets: Secrets,
    party: str,
    more: Mapping[str, object],
) -> dict[str, str]:
    """Of a party's worker: its own paths, its own password for Redis, and no secret of others.

    Args:
        places: Where things lie.
        python: Of the parties' environment.
        state: With the ports.
        secrets: Of which the party gets its own password.
        party: Whose.
        more: Other settings of Airflow by ``section.option``.
    """
    home = places.home(party)
    return {
        **_common(places, python, home),
        f"OPBOOST_SITE_{party.upper()}": str(home / "site.yaml"),
        **_airflow(python, state, broker_url(state, party, secrets.redis[party])),
        **settings(
            {
                "celery.worker_concurrency": CONCURRENCY,
                # Commands to all workers, and their answers, go through keys that all share.
                "celery.worker_enable_remote_control": False,
                **{
                    f"celery_broker_transport_options.{name}": key
                    for name, key in unacknowledged(party).items()
                },
                "dag_processor.stale_bundle_cleanup_interval": 0,
                "workers.execution_api_timeout": 30,
                "workers.min_heartbeat_interval": 1,
                # Airflow's database holds Variables and Connections of all.
                "workers.secrets_backend": _OWN_SECRETS,
                "workers.secrets_backend_kwargs": json.dumps(
                    {
                        "variables_file_path": str(home / "secrets" / "variables.json"),
                        "connections_file_path": str(home / "secrets" / "connections.json"),
                    }
                ),
                **more,
            }
        ),
    }


def _common(places: Places, python: Path, home: Path) -> dict[str, str]:
    return {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "PYTHONUNBUFFERED": "1",
        "OPBOOST_FEDERATIONS": str(places.federations),
        "AIRFLOW_HOME": str(home / "airflow"),
    }


def _airflow(python: Path, state: State, broker: str) -> dict[str, str]:
    api = f"http://127.0.0.1:{state.ports.api}"
    return settings(
        {
            "celery.broker_url": broker,
            "celery.result_backend": broker,
            "celery_broker_transport_options.visibility_timeout": 86400,
            "core.dagbag_import_timeout": 300,
            "core.dags_folder": _dags(python),
            "core.execution_api_server_url": f"{api}/execution/",
            "core.executor": "CeleryExecutor",
            "core.load_examples": False,
            "usage_data_collection.enabled": False,
        }
    )


def _dags(python: Path) -> Path:
    (package,) = python.parent.parent.glob("lib/python*/site-packages/opboost_ops/dags")
    return package
