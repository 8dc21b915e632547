"""Epochs: the calendar months for which exponents of private alignment may stay.

The label holder names the month in the plan, by its clock; every feature holder compares it with
its own when it begins a run. A past month would let the label holder look up people about whom it
asked long ago, a coming one would bring it another month's questions.

    >>> from datetime import UTC, datetime
    >>> may_begin("2026-11", datetime(2026, 12, 1, 7, tzinfo=UTC))
    True
    >>> may_begin("2026-11", datetime(2026, 12, 2, 7, tzinfo=UTC))
    False
"""

import re
from datetime import UTC, datetime, timedelta

#: Clocks, and the beginning of a run at two parties, may be so far apart.
TOLERANCE = timedelta(days=1)

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


def is_epoch(value: object) -> bool:
    """Whether a value of a plan is the name of an epoch."""
    return isinstance(value, str) and _MONTH.fullmatch(value) is not None


def epoch_at(moment: datetime) -> str:
    """The epoch of a moment: its month in UTC, as in ``2026-11``.

    Args:
        moment: With its time zone.
    """
    return f"{moment.astimezone(UTC):%Y-%m}"


def begun_by(moment: datetime) -> frozenset[str]:
    """The epochs in which a run may begin at a moment: one, or two about the end of a month.

    Args:
        moment: With its time zone.
    """
    return frozenset(epoch_at(moment + shift) for shift in (-TOLERANCE, TOLERANCE))


def may_begin(epoch: str, moment: datetime) -> bool:
    """Whether a run of an epoch may begin at a moment.

    Args:
        epoch: Its name.
        moment: With its time zone.
    """
    return epoch in begun_by(moment)


def now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)
