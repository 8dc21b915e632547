"""The Airflow plugin: the scheduler's look at slots, and pages in the UI.

Registered by entry point and by `plugins/`. Every component of Airflow loads it, so it imports
little; the pages' own imports are made by the API server, when the first page is asked for.
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

# Before anything of this process looks for its variables.
adopt_section()

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Scope]]
_Send = Callable[[_Scope], Awaitable[None]]


class Pages:
    """The pages' application, made when it is first needed."""

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer as the pages' application does."""
        app = await asyncio.to_thread(_pages)
        await app(scope, receive, send)


@cache
def _pages() -> Any:
    from opboost_ops.orchestration.pages.app import make_app

    return make_app()


class OpBoostPlugin(AirflowPlugin):
    """Loaded by every Airflow component; light, therefore."""

    name = "opboost"
    listeners = [admin_dag, capacity, run_notes, metrics]  # noqa: RUF012
    operator_extra_links = [RunPage(), LedgerPage()]  # noqa: RUF012
    fastapi_apps = [{"app": Pages(), "url_prefix": f"/{PREFIX}", "name": "OpBoost"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        # One entry; its pages have a navigation of their own. Airflow shows it to anyone who may
        # read its plugins. Without a slash before it, the address holds where Airflow is served
        # below a path.
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
