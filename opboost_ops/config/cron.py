"""Cron expressions: five fields or a word such as ``@daily``, at a time that comes."""

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

_WORDS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@quarterly", "@yearly",
          "@annually")  # fmt: skip
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

#: Least and greatest value of each field, and names from the least one on.
_FIELDS: Sequence[tuple[int, int, Sequence[str]]] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _DAYS),
)  # fmt: skip

#: Days of the longest month of that number.
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

#: The last day of a month, and the last or n-th weekday of one.
_LAST, _NTH = re.compile(r"l", re.IGNORECASE), re.compile(r"(l[0-7]|[0-7]#[1-5l])", re.IGNORECASE)


def cron_problem(text: str) -> str:
    """Why a text is no time at which runs can start; empty if it is one.

    Args:
        text: A cron expression.
    """
    if text in _WORDS:
        return ""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return "is not a cron expression: it has five fields"
    values: list[set[int] | None] = []
    for place, (field, (least, most, names)) in enumerate(zip(fields, _FIELDS, strict=True)):
        special = {2: _LAST, 4: _NTH}.get(place)
        if special is not None and all(special.fullmatch(part) for part in field.split(",")):
            values.append(None)
            continue
        field_values = _values(field.lower(), least, most, names)
        if not field_values:
            return f"is not a cron expression: {field} is not from {least} to {most}"
        values.append(field_values)
    days, months, weekday = values[2], values[3], fields[4]
    if days is None or months is None or weekday != "*":
        return ""
    comes = min(days) <= max(_LONGEST[month - 1] for month in months)
    return "" if comes else "never comes: no such month has that day"


def _values(field: str, least: int, most: int, names: Sequence[str]) -> set[int]:
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


def _comes(text: str) -> str:
    if problem := cron_problem(text):
        raise ValueError(f"{problem}; for example 0 3 * * 1")
    return text


#: A cron expression whose time comes.
Cron = Annotated[str, AfterValidator(_comes)]
