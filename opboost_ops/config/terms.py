"""Terms on which parties agree: what runs are for, until when, how often, and how long kept."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field

from opboost_ops.config.schema import MOVING, Record
from opboost_ops.errors import Fault

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY_NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

#: Least and greatest value of each field, and names from the least one on.
_FIELD_RANGES: Sequence[tuple[int, int, Sequence[str]]] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _DAY_NAMES),
)  # fmt: skip

#: Days of the longest month of that number.
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

#: The last day of a month, and the last or n-th weekday of one.
_LAST, _NTH = re.compile(r"l", re.IGNORECASE), re.compile(r"(l[0-7]|[0-7]#[1-5l])", re.IGNORECASE)

#: Days in the longest month, and how often a day of the week is in it.
_DAYS, _WEEKS = 31, 5

#: Runs in the longest month by cron's named schedules.
_NAMED = {"@hourly": 24 * _DAYS, "@daily": _DAYS, "@midnight": _DAYS, "@weekly": _WEEKS,
          "@monthly": 1, "@quarterly": 1, "@yearly": 1, "@annually": 1}  # fmt: skip

#: First and last value of minutes, hours and days of the month, and days of the week.
_MINUTES, _HOURS, _MONTH_DAYS, _WEEK_DAYS = (0, 59), (0, 23), (1, _DAYS), (0, 6)

_WEEK_NAMES = {name: str(number) for number, name in enumerate(_DAY_NAMES)}


def cron_problem(text: str) -> str:
    """Why a text is no time at which runs can start; empty if it is one.

    Args:
        text: A cron expression.
    """
    if text in _NAMED:
        return ""
    fields = text.split()
    if len(fields) != len(_FIELD_RANGES):
        return "is not a cron expression: it has five fields"
    values: list[set[int] | None] = []
    for place, (field, (least, most, names)) in enumerate(zip(fields, _FIELD_RANGES, strict=True)):
        special = {2: _LAST, 4: _NTH}.get(place)
        if special is not None and all(special.fullmatch(part) for part in field.split(",")):
            values.append(None)
            continue
        field_values = _values_of_field(field.lower(), least, most, names)
        if not field_values:
            return f"is not a cron expression: {field} is not from {least} to {most}"
        values.append(field_values)
    days, months, weekday = values[2], values[3], fields[4]
    if days is None or months is None or weekday != "*":
        return ""
    comes = min(days) <= max(_LONGEST[month - 1] for month in months)
    return "" if comes else "never comes: no such month has that day"


def _values_of_field(field: str, least: int, most: int, names: Sequence[str]) -> set[int]:
    """The values of a field; none if it is no such field."""
    values: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = ("", "", "") if span == "*" else span.partition("-")
        first = least if span == "*" else _number(low, least, names)
        last = _number(high, least, names) if dash else most if slash or span == "*" else first
        by = int(step) if step.isdecimal() else 0 if slash else 1
        if first is None or last is None or not least <= first <= last <= most or by < 1:
            return set()
        values.update(range(first, last + 1, by))
    return values


def _number(text: str, least: int, names: Sequence[str]) -> int | None:
    if text in names:
        return least + names.index(text)
    return int(text) if text.isascii() and text.isdecimal() else None


def _require_time(text: str) -> str:
    if problem := cron_problem(text):
        raise ValueError(f"{problem}; for example 0 3 * * 1")
    return text


#: A cron expression whose time comes.
Cron = Annotated[str, AfterValidator(_require_time)]


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
    if len(fields) != len(_FIELD_RANGES):
        return _NAMED.get(cron.strip().lower(), 0)
    minute, hour, day, _, week_day = fields
    by_month, by_week = (
        _count_values(day, *_MONTH_DAYS),
        _WEEKS * _count_values(week_day, *_WEEK_DAYS),
    )
    if "*" in (day, week_day):
        days = min(by_month, by_week, _DAYS)
    else:
        # Cron runs on days that are of either kind.
        days = min(by_month + by_week, _DAYS)
    return _count_values(minute, *_MINUTES) * _count_values(hour, *_HOURS) * days


def _count_values(field: str, first: int, last: int) -> int:
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
