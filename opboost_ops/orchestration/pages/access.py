"""Who may look, which parties a deployment may show, and what goes wrong with a page."""

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

_LOG = logging.getLogger("opboost_ops")

_PREFIX = "OPBOOST_SITE_"

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Query:
    """The content that a page is to show.

    Attributes:
        sees_dag: Whether the reader may see a DAG's runs, by its id.
        party: Only this party; all of the deployment when None.
        federation: Only this federation.
        run: Only this run.
        page: Which page of a long list, from 1.
        entries: The same for the list of log entries.
        whole: All pages at once, for a download.
        since: First day of a period, as 2026-01-31; empty for the default.
        until: Its last day, likewise.
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
        """True if the reader may see a federation."""
        return self.sees_dag(f"{federation}_train")

    def dags(self, federation: str, *purposes: str) -> list[str]:
        """The DAGs of a federation's runs that may be shown: its own, and those that hold it.

        Args:
            federation: One that may be seen.
            purposes: What the runs are for; all when absent.
        """
        dags = []
        for purpose in purposes or airflow.PURPOSES:
            holders = [
                dag for dag in airflow_dags.holders(federation, purpose) if self.sees_dag(dag)
            ]
            dags += [f"{federation}_{purpose}", *holders]
        return dags

    def wants(self, federation: str, run: str | None = None) -> bool:
        """True if a run's things are to be shown."""
        if self.federation is not None and federation != self.federation:
            return False
        if self.run is not None and run != self.run:
            return False
        return self.sees(federation)

    def paged(
        self, items: Sequence[_Item], length: int, field: Literal["page", "entries"] = "page"
    ) -> tuple[Sequence[_Item], Pager | None]:
        """The part of a list that this page shows.

        Args:
            items: All of them.
            length: How many fit on a page.
            field: Which field of the question turns its pages.
        """
        pages = max(1, -(-len(items) // length))
        if self.whole or pages == 1:
            return items, None
        page = min(self.page if field == "page" else self.entries, pages)
        return items[(page - 1) * length : page * length], Pager(page, pages, field)


Builder = Callable[[str, Query], list[Block]]


def parties() -> list[str]:
    """The parties whose sites this process's environment names, by ``OPBOOST_SITE_<PARTY>``."""
    return sorted(
        name.removeprefix(_PREFIX).lower()
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and name != _PREFIX and value
    )


def sections(build: Builder, query: Query) -> list[Section]:
    """Each party's part; the fault of one of them is told in its place and spares the others.

    Args:
        build: Makes a party's part.
        query: What is asked for.
    """
    shown = [name for name in parties() if query.party in (None, name)]
    return [Section(name, tuple(guarded(partial(build, name, query)))) for name in shown]


def guarded(build: Callable[[], list[Block]]) -> list[Block]:
    """The blocks of a builder, or a note that says why it cannot make them.

    Args:
        build: The builder.
    """
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
        # The text of a foreign error may hold a cell, a path or a URL with a password.
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
    """True if a party's database can exist: looking at a page must not make one.

    Args:
        site: The party's.
    """
    prefix = "sqlite:///"
    url = site.ledger_url()
    return not url.startswith(prefix) or Path(url.removeprefix(prefix)).exists()


def of_state(build: Callable[[Site, Policy, Query], list[Block]], absent: str) -> Builder:
    """A builder of a party's part of a page of its state.

    Args:
        build: Makes it.
        absent: What is said where there is none yet.
    """

    def part(party: str, query: Query) -> list[Block]:
        site, policy = site_of(party)
        return build(site, policy, query) if has_state(site) else [Note("muted", absent)]

    return part


def federations(query: Query) -> list[str]:
    """Federations that the parties of this deployment take part in, as far as they may be seen.

    Args:
        query: What is asked for.
    """
    names: set[str] = set()
    for party in parties():
        try:
            site, _ = site_of(party)
            names.update(site.tables)
        except OpBoostError:
            # The party's own part of the page says it.
            continue
    return sorted(name for name in names if query.sees(name))
