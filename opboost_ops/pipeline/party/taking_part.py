"""A party's participation in a federation, or its stop until its own people resume."""

from dataclasses import dataclass

from opboost_ops.config.site import Site
from opboost_ops.errors import PolicyError
from opboost_ops.exchange.party_state import PartyState, open_state

#: How the audit log names a person who acted through Airflow.
THROUGH_AIRFLOW = " through Airflow"


@dataclass(frozen=True)
class Stop:
    """A party's stop in one federation, which nothing has ended yet.

    Attributes:
        at: When it began, UTC.
        by: The user of Airflow who asked for it; empty where it was done at home, since its own
            people are not named outside.
        at_home: Whether it was done at home. Then it also ends at home.
    """

    at: str
    by: str
    at_home: bool


def stopped(state: PartyState, federation: str) -> Stop | None:
    """A party's present stop in a federation, by its audit log; None if it takes part.

    Args:
        state: The party's.
        federation: Name of the federation.
    """
    entries = state.audit.of("stopped", "resumed")
    entries_of = [entry for entry in entries if entry.place.partition("/")[0] == federation]
    if not entries_of or entries_of[-1].action != "stopped":
        return None
    last = entries_of[-1]
    at_home = last.place == f"{federation}/home/act"
    by = "" if at_home else (last.detail or "").rpartition(f"{THROUGH_AIRFLOW}: ")[0]
    return Stop(last.at, by, at_home)


def require_taking_part(site: Site, federation: str) -> None:
    """Refuse what a party that has stopped taking part does not answer.

    Args:
        site: The party's.
        federation: Name of the federation.

    Raises:
        PolicyError: The party has stopped.
    """
    with open_state(site) as state:
        stop = stopped(state, federation)
    if stop is not None:
        raise PolicyError(
            f"{site.party} has stopped taking part in {federation}.",
            "Its own people decide when it does again, by `opboost resume`.",
        )
