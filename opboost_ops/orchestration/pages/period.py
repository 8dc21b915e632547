"""The days of a statement: those asked for; a missing first day is thirty days back."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from urllib.parse import urlencode

from opboost_ops.errors import ContractError
from opboost_ops.orchestration.pages.access import Query
from opboost_ops.reports.display.html import Filter

#: Days of a period without a first one.
DAYS = 30


@dataclass(frozen=True)
class Period:
    """Days in UTC, both ends included."""

    first: date
    last: date

    @cached_property
    def begin(self) -> str:
        """From when on, as ledger and log write it."""
        return datetime.combine(self.first, time(), UTC).isoformat(timespec="seconds")

    @cached_property
    def end(self) -> str:
        """Before when; the first moment that no longer belongs to it."""
        after = datetime.combine(self.last + timedelta(days=1), time(), UTC)
        return after.isoformat(timespec="seconds")

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.first} to {self.last}"

    def has(self, at: str) -> bool:
        """Whether a moment belongs to it.

        Args:
            at: In UTC, as ledger and log write it.
        """
        return self.begin <= at < self.end


def asked_for(query: Query) -> Period:
    """The period of a question.

    Args:
        query: What is asked for.

    Raises:
        ContractError: It names no day, or ends before it begins.
    """
    try:
        last = date.fromisoformat(query.until) if query.until else datetime.now(UTC).date()
        first = date.fromisoformat(query.since) if query.since else last - timedelta(days=DAYS - 1)
    except (ValueError, OverflowError):
        raise ContractError(
            "A date of this period is invalid.", "Write it as 2026-01-31."
        ) from None
    if first > last:
        raise ContractError("This period ends before it begins.", "Swap the dates.")
    return Period(first, last)


def fields(query: Query) -> tuple[Filter, Filter]:
    """Fields for its days.

    Args:
        query: What is asked for.
    """
    return (
        Filter("since", "First day", "date", shown=query.since),
        Filter("until", "Last day", "date", shown=query.until),
    )


def ways(query: Query) -> list[tuple[str, str]]:
    """One click to what is asked for most, the last night and three months: text and question.

    Args:
        query: What is asked for now.
    """
    kept = {"party": query.party, "federation": query.federation}
    kept = {name: value for name, value in kept.items() if value}
    last = datetime.now(UTC).date()
    night = {"since": last - timedelta(days=1), "until": last}
    found = [("Last night", urlencode({**kept, **night}))]
    for _ in range(3):
        first = last.replace(day=1)
        found.append((f"{first:%B %Y}", urlencode({**kept, "since": first, "until": last})))
        last = first - timedelta(days=1)
    return found
