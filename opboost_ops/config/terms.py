"""Terms on which parties agree: what runs are for, until when, how often, and how long kept."""

from collections.abc import Iterator
from datetime import date
from typing import Annotated

from pydantic import Field

from opboost_ops.config.schema import MOVING, Record
from opboost_ops.errors import Fault

#: Days in the longest month, and how often a day of the week is in it.
_DAYS, _WEEKS = 31, 5

#: Runs in the longest month by cron's named schedules.
_NAMED = {"@hourly": 24 * _DAYS, "@daily": _DAYS, "@midnight": _DAYS, "@weekly": _WEEKS,
          "@monthly": 1, "@quarterly": 1, "@yearly": 1, "@annually": 1}  # fmt: skip

#: First and last value of minutes, hours and days of the month, and days of the week.
_MINUTES, _HOURS, _MONTH_DAYS, _WEEK_DAYS = (0, 59), (0, 23), (1, _DAYS), (0, 6)
_FIELDS = 5


class RunsPerMonth(Record):
    """Most runs that a party takes part in, by purpose, in a calendar month.

    Attributes:
        train: Training runs.
        score: Scoring runs.
    """

    train: int = Field(ge=1)
    score: int = Field(ge=1)


class Terms(Record):
    """Terms of an agreement.

    Attributes:
        purpose: What the model and its scores are used for.
        until: The last day on which a party answers; its people agree again to go on.
        retention_days: Days after which receivers delete what they received. The software does not
            delete it for them.
        runs_per_month: Most runs. Schedules within it need no new agreement.
    """

    purpose: Annotated[str, Field(min_length=1, max_length=500, pattern=rf"^[^{MOVING}]+$")]
    until: date
    retention_days: int = Field(ge=1)
    runs_per_month: RunsPerMonth


def schedule_faults(terms: Terms, train: str | None, score: str | None) -> Iterator[Fault]:
    """Find schedules that start more runs than the parties agree to.

    Args:
        terms: As declared.
        train: ``schedule.cron``.
        score: ``scoring.cron``.
    """
    for where, cron, purpose in (("schedule", train, "train"), ("scoring", score, "score")):
        most = getattr(terms.runs_per_month, purpose)
        runs = runs_of(cron) if cron is not None else 0
        if runs > most:
            yield Fault(
                f"{where}.cron",
                f"starts up to {runs:,} runs a month, more than the {most:,} of "
                f"terms.runs_per_month.{purpose}",
                "start fewer, or agree on more",
            )


def runs_of(cron: str) -> int:
    """Most runs that a cron expression starts in a calendar month, whichever months it names.

    Args:
        cron: The expression; of one that is none, 0: Airflow refuses it.

        >>> runs_of("0 3 * * *"), runs_of("*/30 8-17 * * mon-fri"), runs_of("@weekly")
        (31, 500, 5)
    """
    fields = cron.lower().split()
    if len(fields) != _FIELDS:
        return _NAMED.get(cron.strip().lower(), 0)
    minute, hour, day, _, week_day = fields
    by_month, by_week = _count(day, *_MONTH_DAYS), _WEEKS * _count(week_day, *_WEEK_DAYS)
    if "*" in (day, week_day):
        days = min(by_month, by_week, _DAYS)
    else:
        # Cron runs on days that are of either kind.
        days = min(by_month + by_week, _DAYS)
    return _count(minute, *_MINUTES) * _count(hour, *_HOURS) * days


def _count(field: str, first: int, last: int) -> int:
    """How many values a field of a cron expression has; as many as it may where it is unusual."""
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        for name, number in _WEEK_NAMES.items() if last == _WEEK_DAYS[1] else ():
            begin, end = begin.replace(name, number), end.replace(name, number)
        if span == "*":
            begin, end = str(first), str(last)
        elif not end:
            end = str(last) if step else begin
        if not all(text.isdecimal() for text in (begin, end, step or "1")):
            return last - first + 1
        values.update(range(int(begin), int(end) + 1, max(int(step or 1), 1)))
    # Sunday is 0 and 7.
    return len({value % 7 for value in values} if last == _WEEK_DAYS[1] else values)


_WEEK_NAMES = {"sun": "0", "mon": "1", "tue": "2", "wed": "3", "thu": "4", "fri": "5", "sat": "6"}
