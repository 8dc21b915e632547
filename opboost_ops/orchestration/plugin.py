"""The Airflow plugin: scheduler listeners, and pages in the UI.

Registered by entry point and by `plugins/`. Every Airflow component loads it, so it imports little;
the API server imports the pages when the first one is requested.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from opboost_ops.orchestration.dags import admin_dag, run_notes
from opboost_ops.orchestration.dags.operators import PREFIX, LedgerPage, RunPage
from opboost_ops.orchestration.deployment import capacity, metrics
from opboost_ops.orchestration.settings import adopt_section

# Must run before anything in this process reads its environment variables.
adopt_section()

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Scope]]
_Send = Callable[[_Scope], Awaitable[None]]


class Pages:
    """The pages' ASGI application, created at the first request."""

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Serve a request."""
        app = await asyncio.to_thread(_pages)
        await app(scope, receive, send)


@cache
def _pages() -> Any:
    from opboost_ops.orchestration.pages.app import make_app

    return make_app()


class OpBoostPlugin(AirflowPlugin):
    """The plugin class; every Airflow component loads it, so its module imports little."""

    name = "opboost"
    listeners = [admin_dag, capacity, run_notes, metrics]  # noqa: RUF012
    operator_extra_links = [RunPage(), LedgerPage()]  # noqa: RUF012
    fastapi_apps = [{"app": Pages(), "url_prefix": f"/{PREFIX}", "name": "OpBoost"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        # One menu entry; the pages have their own navigation. Airflow shows it to anyone who may
        # read plugins. The address is relative, so that it also works if Airflow is served below
        # a path.
        {
            "name": "OpBoost",
            "href": f"{PREFIX}/",
            "url_route": "opboost",
            "destination": "nav",
            "icon": f"{PREFIX}/icon.svg",
        },
        {
            "name": "OpBoost",
            "href": f"{PREFIX}/run?dag={{DAG_ID}}&run={{RUN_ID}}",
            "url_route": "opboost-run",
            "destination": "dag_run",
            "icon": f"{PREFIX}/icon.svg",
        },
    ]
