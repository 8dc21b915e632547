"""The party's own clock: dates that other parties claim do not change it."""

from datetime import UTC, date, datetime


def today() -> date:
    """Return the current date, UTC."""
    return datetime.now(UTC).date()
