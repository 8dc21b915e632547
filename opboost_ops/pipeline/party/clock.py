"""This party's own clock: what it believes of the day, whatever others say."""

from datetime import UTC, date, datetime


def today() -> date:
    """The day now, UTC."""
    return datetime.now(UTC).date()
