"""The terms of an agreement: purpose, end and frequency of runs, and retention."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field

from opboost_ops.config.schema import CONTROL_CHARACTERS, Record
from opboost_ops.errors import Fault

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY_NAMES = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

#: Range of each cron field, and the names of its values from the least one on.
_FIELD_RANGES: Sequence[tuple[int, int, Sequence[str]]] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _DAY_NAMES),
)  # fmt: skip

#: Maximum number of days of each month.
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

#: Cron extensions: the last day of a month, and its last or n-th weekday.
_LAST, _NTH = re.compile(r"l", re.IGNORECASE), re.compile(r"(l[0-7]|[0-7]#[1-5l])", re.IGNORECASE)

#: Days of the longest month, and maximum number of a weekday in a month.
_DAYS, _WEEKS = 31, 5

#: Maximum runs per month of cron's named schedules.
_NAMED = {"@hourly": 24 * _DAYS, "@daily": _DAYS, "@midnight": _DAYS, "@weekly": _WEEKS,
          "@monthly": 1, "@quarterly": 1, "@yearly": 1, "@annually": 1}  # fmt: skip

#: Ranges of minutes, hours, days of the month, and days of the week.
_MINUTES, _HOURS, _MONTH_DAYS, _WEEK_DAYS = (0, 59), (0, 23), (1, _DAYS), (0, 6)

_WEEK_NAMES = {name: str(number) for number, name in enumerate(_DAY_NAMES)}


def cron_problem(text: str) -> str:
    """Return why a text is not a usable cron expression; empty if it is."""
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
    possible = min(days) <= max(_MONTH_LENGTHS[month - 1] for month in months)
    return "" if possible else "never occurs: no such month has that day"


def _values_of_field(field: str, least: int, most: int, names: Sequence[str]) -> set[int]:
    """Return the values of a field; empty if the field is invalid."""
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


#: A cron expression that has a next time.
Cron = Annotated[str, AfterValidator(_require_time)]


class RunsPerMonth(Record):
    """Maximum number of runs that a party takes part in per calendar month, by purpose.

    Attributes:
        train: Training runs.
        score: Scoring runs.
    """

    train: int = Field(ge=1)
    score: int = Field(ge=1)


class Terms(Record):
    """The terms of an agreement.

    Attributes:
        purpose: Use of the model and its scores.
        until: Last day on which a party takes part; continuing requires a new agreement.
        retention_days: Days after which receivers must delete what they received. The software does
            not delete it for them.
        runs_per_month: Maximum number of runs. Schedules within it need no new agreement.
    """

    purpose: Annotated[
        str, Field(min_length=1, max_length=500, pattern=rf"^[^{CONTROL_CHARACTERS}]+$")
    ]
    until: date
    retention_days: int = Field(ge=1)
    runs_per_month: RunsPerMonth


def schedule_faults(terms: Terms, train: str | None, score: str | None) -> Iterator[Fault]:
    """Yield a fault for each schedule that starts more runs than the parties agree to.

    Args:
        terms: The declared terms.
        train: ``schedule.cron``.
        score: ``scoring.cron``.
    """
    for where, cron, purpose in (("schedule", train, "train"), ("scoring", score, "score")):
        most = getattr(terms.runs_per_month, purpose)
        runs = runs_of(cron) if cron is not None else 0
        if runs > most:
            yield Fault(
                f"{where}.cron",
                f"starts up to {runs:,} runs per month, more than the {most:,} of "
                f"terms.runs_per_month.{purpose}",
                "start fewer, or raise the limit and agree again",
            )


def runs_of(cron: str) -> int:
    """Return the maximum number of runs per calendar month that a cron expression starts.

    Args:
        cron: The expression; 0 for an invalid one, which is refused elsewhere.

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
        # Cron runs on days that match either field.
        days = min(by_month + by_week, _DAYS)
    return _count_values(minute, *_MINUTES) * _count_values(hour, *_HOURS) * days


def _count_values(field: str, first: int, last: int) -> int:
    """Return the number of values of a cron field; the maximum for an unusual one."""
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
    # Sunday is both 0 and 7.
    return len({value % 7 for value in values} if last == _WEEK_DAYS[1] else values)
