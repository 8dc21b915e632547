"""Cells of a CSV file as values: one declared dialect, and no guess where a form is ambiguous."""

import re
from collections.abc import Iterator

import polars as pl

from opboost_ops.config.source import Source

#: First cells of a column, by which forms are ruled out without a look at the rest.
_FEW = 100

#: Days as ISO writes them, and with the day first between points, which no country reads otherwise.
_PLAIN_DATES = (
    (r"^\d{4}-\d{1,2}-\d{1,2}", "%Y-%m-%d"),
    (r"^\d{4}/\d{1,2}/\d{1,2}", "%Y/%m/%d"),
    (r"^\d{1,2}\.\d{1,2}\.\d{4}", "%d.%m.%Y"),
)
#: Day or month first, by the sign between them.
_TWO_ORDERS = (
    (r"^\d{1,2}/\d{1,2}/\d{4}", "%d/%m/%Y", "%m/%d/%Y"),
    (r"^\d{1,2}-\d{1,2}-\d{4}", "%d-%m-%Y", "%m-%d-%Y"),
)
_TIMES = ("%H:%M:%S%.f", "%H:%M")
_ZONES = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z")

_LIKE_A_DATE = r"^\d{1,2}([./-])\d{1,2}[./-](\d{2}|\d{4})([ T].*)?$"
_LIKE_A_NUMBER = r"^[+-]?\d[\d.,' \x{a0}\x{202f}\x{2019}]*$"
_SPACES = r"[ \x{a0}\x{202f}]"

_DATES_REMEDY = "declare its form in site.yaml, for example `dates: '%d.%m.%Y'`"
_NUMBERS_REMEDY = (
    "declare the signs of numbers in site.yaml, for example `decimal: ','` and `thousands: '.'`"
)


def present(name: str, missing: list[str]) -> pl.Expr:
    """A column's cells without blanks around them; missing ones are null."""
    stripped = pl.col(name).str.strip_chars()
    return pl.when(~stripped.is_in(missing)).then(stripped)


def numbers(cell: pl.Expr, source: Source, kind: type[pl.DataType]) -> pl.Expr:
    """Cells as numbers; null for one that the declared dialect does not write so.

    Args:
        cell: Text without blanks around it.
        source: The dialect.
        kind: `polars.Int64` or `polars.Float64`.
    """
    whole, decimal = r"\d+", re.escape(source.decimal)
    if source.thousands:
        sign = _SPACES if source.thousands == " " else re.escape(source.thousands)
        whole = rf"(?:\d{{1,3}}(?:{sign}\d{{3}})+|\d+)"
    shape = rf"^[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?$|^[+-]?(?i:inf)$"
    plain = cell
    if source.thousands:
        plain = plain.str.replace_all(sign, "")
    if source.decimal != ".":
        plain = plain.str.replace(source.decimal, ".", literal=True)
    return pl.when(cell.str.contains(shape)).then(plain.cast(kind, strict=False))


def reading(cells: pl.Series, source: Source, kind: str | None) -> pl.Expr | None:
    """How a column's cells are read: the first form that all of them have.

    Args:
        cells: All present cells, text without blanks around them.
        source: The dialect.
        kind: Of an expected column; None for one that nobody declares.

    Returns:
        An expression over a column of the same name; None for plain text.
    """
    cell = pl.col(cells.name)
    if kind is None and cells.str.contains(r"^[+-]?0\d").any() and _all_digits(cells):
        return None  # Codes, such as 01067.
    for way in _ways(cell, source, kind):
        if all(
            not part.to_frame().select(way.alias("read")).to_series().null_count()
            for part in (cells[:_FEW], cells)
        ):
            return way
    if kind in (None, "date"):
        for shape, *orders in _TWO_ORDERS:
            if source.dates or not cells.str.contains(shape).all():
                continue
            fits = [order for order in orders if _fits(cells, order)]
            if len(fits) == 1 or (len(fits) == 2 and _same(cells, *fits)):
                return _date_way(cells, shape, fits[0])
    return None


def ambiguity(cells: pl.Series, kind: str | None) -> str:
    """Why cells that were left as text have a form that only a declaration decides; else empty.

    Args:
        cells: All present cells, text without blanks around them.
        kind: Of an expected column; None for one that nobody declares.
    """
    if not len(cells) or kind == "text":
        return ""
    if cells.str.contains(_LIKE_A_DATE).all():
        return f"its dates could be read in several ways: {_DATES_REMEDY}"
    if cells.str.contains(_LIKE_A_NUMBER).all() and not _all_digits(cells):
        return f"its numbers could be read in several ways: {_NUMBERS_REMEDY}"
    return ""


def _all_digits(cells: pl.Series) -> bool:
    return bool(cells.str.contains(r"^[+-]?\d+$").all())


def _ways(cell: pl.Expr, source: Source, kind: str | None) -> Iterator[pl.Expr]:
    """All forms but plain text; each gives null for what it cannot read."""
    lower = cell.str.to_lowercase()
    yield pl.when(lower.is_in(["true", "false"])).then(lower == "true")
    for number in (pl.Int64, pl.Float64):
        yield numbers(cell, source, number)
    if kind == "number":
        return
    if source.dates:
        four = pl.when(cell.str.contains(r"\d{4}")).then(cell) if "%Y" in source.dates else cell
        yield four.str.to_date(source.dates, strict=False)
        yield four.str.to_datetime(source.dates, time_unit="us", strict=False)
    for shape, date in _PLAIN_DATES[: 1 if source.dates else None]:
        dated = pl.when(cell.str.contains(shape)).then(cell)
        yield from _dates(dated, date)
    for zone in _ZONES:
        yield cell.str.to_datetime(zone, time_unit="us", strict=False)
    for time in _TIMES:
        yield cell.str.to_time(time, strict=False)


def _dates(dated: pl.Expr, date: str) -> Iterator[pl.Expr]:
    yield dated.str.to_date(date, strict=False)
    for moment in (f"{date}{between}{time}" for between in " T" for time in _TIMES):
        yield dated.str.to_datetime(moment, time_unit="us", strict=False)


def _date_way(cells: pl.Series, shape: str, date: str) -> pl.Expr | None:
    dated = pl.when(pl.col(cells.name).str.contains(shape)).then(pl.col(cells.name))
    for way in _dates(dated, date):
        if not cells.to_frame().select(way.alias("read")).to_series().null_count():
            return way
    return None


def _days(cells: pl.Series, order: str) -> pl.Series:
    return cells.str.replace(r"[ T].*$", "").str.to_date(order, strict=False)


def _fits(cells: pl.Series, order: str) -> bool:
    return not _days(cells, order).null_count()


def _same(cells: pl.Series, first: str, second: str) -> bool:
    return bool((_days(cells, first) == _days(cells, second)).all())
