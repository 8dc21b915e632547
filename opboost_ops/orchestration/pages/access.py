"""Access to the pages: who may see what, the parties of a deployment, and errors of a page."""

import logging
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from fastapi import Depends

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.orchestration.pages import airflow, airflow_dags
from opboost_ops.reports.display.blocks import Block, Note, Pager, Section

#: Requirement of all pages: permission to see plugins, and thereby their menu entry.
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

    # A page often checks the same DAG several times.
    return cache(may_see)


#: Predicate: true if the user may see a DAG's runs.
SeesDag = Annotated[Callable[[str], bool], Depends(_dag_reader)]

_LOG = logging.getLogger("opboost_ops")

_PREFIX = "OPBOOST_SITE_"

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Query:
    """The part of the content that a page shows.

    Attributes:
        sees_dag: Predicate of a DAG's id: true if the user may see its runs.
        party: Only this party; all of the deployment when None.
        federation: Only this federation.
        run: Only this run.
        page: Page number of a long list, from 1.
        entries: Page number of the list of log entries, from 1.
        whole: All pages at once, for a download.
        since: First day of a period, as 2026-01-31; empty for the default.
        until: Last day of the period, in the same form.
    """

    sees_dag: Callable[[str], bool]
    party: str | None = None
    federation: str | None = None
    run: str | None = None
    page: int = 1
    entries: int = 1
    whole: bool = False
    since: str = ""
    until: str = ""

    def sees(self, federation: str) -> bool:
        """True if the user may see a federation."""
        return self.sees_dag(f"{federation}_train")

    def dags(self, federation: str, *purposes: str) -> list[str]:
        """Return the visible DAGs of a federation's runs, including handwritten DAGs.

        Args:
            federation: A visible federation.
            purposes: ``train`` or ``score``; both by default.
        """
        dags = []
        for purpose in purposes or airflow.PURPOSES:
            holders = [
                dag for dag in airflow_dags.custom_dags(federation, purpose) if self.sees_dag(dag)
            ]
            dags += [f"{federation}_{purpose}", *holders]
        return dags

    def wants(self, federation: str, run: str | None = None) -> bool:
        """True if the page shows this federation and run."""
        if self.federation is not None and federation != self.federation:
            return False
        if self.run is not None and run != self.run:
            return False
        return self.sees(federation)

    def paged(
        self, items: Sequence[_Item], length: int, field: Literal["page", "entries"] = "page"
    ) -> tuple[Sequence[_Item], Pager | None]:
        """Return the items on the requested page of a list, and its pager if there are several.

        Args:
            items: All items.
            length: Items per page.
            field: The query field with the page number.
        """
        pages = max(1, -(-len(items) // length))
        if self.whole or pages == 1:
            return items, None
        page = min(self.page if field == "page" else self.entries, pages)
        return items[(page - 1) * length : page * length], Pager(page, pages, field)


Builder = Callable[[str, Query], list[Block]]


def parties() -> list[str]:
    """Return the parties with a ``OPBOOST_SITE_<PARTY>`` variable in this process."""
    return sorted(
        name.removeprefix(_PREFIX).lower()
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and name != _PREFIX and value
    )


def sections(build: Builder, query: Query) -> list[Section]:
    """Return each party's section; an error in one is shown in its place.

    Args:
        build: Builds a party's blocks.
        query: The content to show.
    """
    shown = [name for name in parties() if query.party in (None, name)]
    return [Section(name, tuple(guarded(partial(build, name, query)))) for name in shown]


def guarded(build: Callable[[], list[Block]]) -> list[Block]:
    """Return a builder's blocks, or a note with its error."""
    try:
        return build()
    except ConfigError as error:
        head = error.problem.partition("\n")[0]
        return [Note("bad", head, error.remedy, [*map(str, error.faults)])]
    except OpBoostError as error:
        return [Note("bad", error.problem, error.remedy)]
    except (ConnectionError, TimeoutError) as error:
        text = f"The network or a server failed ({type(error).__name__})."
        return [Note("bad", text, "Load this page again.")]
    except Exception as error:
        # The text of a foreign error may contain a cell, a path or a URL with a password.
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        _LOG.error("a page failed: %s at %s", type(error).__name__, where)
        return [
            Note(
                "bad",
                f"This part cannot be read ({type(error).__name__}).",
                "A file or the database of this party is damaged, or this server may not read it.",
            )
        ]


def has_state(site: Site) -> bool:
    """True if a party's database may exist: viewing a page must not create one."""
    prefix = "sqlite:///"
    url = site.ledger_url()
    return not url.startswith(prefix) or Path(url.removeprefix(prefix)).exists()


def of_state(build: Callable[[Site, Policy, Query], list[Block]], absent: str) -> Builder:
    """Return a builder of a party's blocks that needs the party's database.

    Args:
        build: Builds the blocks.
        absent: Text to show if there is no database yet.
    """

    def part(party: str, query: Query) -> list[Block]:
        site, policy = site_of(party)
        return build(site, policy, query) if has_state(site) else [Note("muted", absent)]

    return part


def federations(query: Query) -> list[str]:
    """Return the visible federations of this deployment's parties."""
    names: set[str] = set()
    for party in parties():
        try:
            site, _ = site_of(party)
            names.update(site.tables)
        except OpBoostError:
            # The party's own section shows the error.
            continue
    return sorted(name for name in names if query.sees(name))
