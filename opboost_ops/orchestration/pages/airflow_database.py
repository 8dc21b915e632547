"""Asks Airflow's database, where there is one, and reads its times."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

_Found = TypeVar("_Found")


def aware(moment: datetime) -> datetime:
    """A time of a database that knows no zones, as UTC.

    Args:
        moment: The time.
    """
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def utc(moment: datetime | None) -> datetime | None:
    """A time of the database, if there is one.

    Args:
        moment: The time.
    """
    return None if moment is None else aware(moment)


def answer_of(ask: Callable[[Any], _Found], nothing: _Found) -> _Found:
    """Ask Airflow's database.

    Args:
        ask: Asks it, in a session.
        nothing: What is known where there is no database, or it cannot be read.
    """
    from opboost_ops.orchestration.pages.airflow_tables import create_session

    try:
        with create_session() as session:
            return ask(session)
    except Exception:
        # Without a database of Airflow's the pages show what the parties have.
        return nothing
