"""Cells of a CSV file as values: one declared dialect, and no guess where a form is ambiguous."""

import re
from collections.abc import Iterator

import polars as pl

from opboost_ops.config.source import Source

#: First cells of a column, by which forms are ruled out without a look at the rest.
_FEW = 100

#: Up to so many different texts are categories, whatever they look like.
_FEW_CATEGORIES = 20

#: A share of numbers beyond which the other cells stand for no value.
_MOSTLY = 0.8

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
_ZONE = "%Y-%m-%d %H:%M:%S%.f%#z"

_LIKE_A_DATE = r"^\d{1,2}([./-])\d{1,2}[./-](\d{2}|\d{4})([ T].*)?$"
_LIKE_A_NUMBER = r"^[+-]?\d[\d.,' \x{a0}\x{202f}\x{2019}]*$"
#: 20240301, which is a whole number and a day.
_COMPACT_DATE = r"^(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_LIKE_ISO = r"^\d{4}[-/]\d"
_SPACES = r"[ \x{a0}\x{202f}]"

_DATES_REMEDY = "declare their form, for example `dates: '%d.%m.%Y'`, in site.yaml or --dialect"
_NUMBERS_REMEDY = (
    "declare their signs, for example `decimal: ',', thousands: '.'`, in site.yaml or --dialect"
)
_TEXTS_REMEDY = "convert the column, or declare its type as ordinal or nominal"
_WORDS_REMEDY = "name the texts that stand for no value under `missing` in site.yaml, or correct it"


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
    sign_first, infinite = "[+\u2212-]?", "(?i:inf|infinity)"
    number = rf"(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?"
    shape = rf"^{sign_first}(?:{number}|{infinite})$"
    # The minus sign of Unicode, as spreadsheets of some countries write it.
    plain = cell.str.replace("\u2212", "-", literal=True)
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
    if kind in (None, "date") and not source.dates and cells.str.contains(_COMPACT_DATE).all():
        return None
    parts = [cells[:_FEW], cells] if len(cells) > _FEW else [cells]
    for way in _ways(cell, source, kind):
        if not any(_unread(part, way) for part in parts):
            return way
    if kind in (None, "date"):
        for shape, *orders in _TWO_ORDERS:
            if source.dates or not cells.str.contains(shape).all():
                continue
            fits = [order for order in orders if _fits(cells, order)]
            if len(fits) == 1 or (len(fits) == 2 and _same(cells, *fits)):
                return _date_way(cells, shape, fits[0])
    return None


def ambiguity(cells: pl.Series, source: Source, kind: str | None) -> str:
    """Why cells were left as text although they look like more, and the remedy; else empty.

    Args:
        cells: All present cells, text without blanks around them.
        source: The dialect.
        kind: Of an expected column; None for one that nobody declares.
    """
    if not len(cells) or kind == "text":
        return ""
    if cells.str.contains(f"{_LIKE_A_DATE}|{_COMPACT_DATE}").all():
        if source.dates:
            return "its dates are not written as `dates` in site.yaml says: correct that entry"
        return f"its dates could be read in several ways: {_DATES_REMEDY}"
    if cells.str.contains(_LIKE_A_NUMBER).all() and not _all_digits(cells):
        return f"its numbers could be read in several ways: {_NUMBERS_REMEDY}"
    # Words in a declared column are refused where people are about to be pinned, by its type: the
    # cell of a person who has a pin must not end a run.
    if kind is not None or not _mostly_numbers(cells):
        return ""
    unread = min(_unread(cells, way) for way in _ways(pl.col(cells.name), source, kind))
    if unread < len(cells):
        return f"{unread:,} of its {len(cells):,} cells are no numbers or dates: {_WORDS_REMEDY}"
    return f"its cells are no numbers or dates: {_TEXTS_REMEDY}"


def _unread(cells: pl.Series, way: pl.Expr) -> int:
    return cells.to_frame().select(way.alias("read")).to_series().null_count()


def _mostly_numbers(cells: pl.Series) -> bool:
    """True for numbers or dates among which are a few words, but for a few categories."""
    like = cells.str.contains(f"{_LIKE_A_NUMBER}|{_LIKE_A_DATE}|{_LIKE_ISO}")
    few = cells.n_unique() <= _FEW_CATEGORIES
    return not few and not _all_digits(cells) and float(like.sum()) >= _MOSTLY * len(cells)


def _all_digits(cells: pl.Series) -> bool:
    return bool(cells.str.contains(r"^[+-]?\d+$").all())


def _ways(cell: pl.Expr, source: Source, kind: str | None) -> Iterator[pl.Expr]:
    """All forms but plain text; each gives null for what it cannot read."""
    if source.dates and kind != "number":
        four = pl.when(cell.str.contains(r"\d{4}")).then(cell) if "%Y" in source.dates else cell
        yield four.str.to_date(source.dates, strict=False)
        yield four.str.to_datetime(source.dates, time_unit="us", strict=False)
    lower = cell.str.to_lowercase()
    yield pl.when(lower.is_in(["true", "false"])).then(lower == "true")
    for number in (pl.Int64, pl.Float64):
        yield numbers(cell, source, number)
    if kind == "number":
        return
    for shape, date in _PLAIN_DATES[: 1 if source.dates else None]:
        dated = pl.when(cell.str.contains(shape)).then(cell)
        yield from _dates(dated, date)
    yield moments(cell)
    yield zoned(cell)
    for time in _TIMES:
        yield cell.str.to_time(time, strict=False)


def moments(cell: pl.Expr) -> pl.Expr:
    """ISO's days and moments without a zone; a day is its midnight.

    Args:
        cell: Text without blanks around it.
    """
    day, plain = (
        cell.str.to_date("%Y-%m-%d", strict=False),
        cell.str.replace("T", " ", literal=True),
    )
    timed = (
        plain.str.to_datetime(f"%Y-%m-%d {time}", time_unit="us", strict=False) for time in _TIMES
    )
    return pl.coalesce(day.cast(pl.Datetime("us")), *timed)


def zoned(cell: pl.Expr) -> pl.Expr:
    """ISO's moments with a zone, as those of UTC.

    Args:
        cell: Text without blanks around it.
    """
    plain = cell.str.replace("T", " ", literal=True)
    return plain.str.to_datetime(_ZONE, time_unit="us", strict=False)


def _dates(dated: pl.Expr, date: str) -> Iterator[pl.Expr]:
    yield dated.str.to_date(date, strict=False)
    for moment in (f"{date}{between}{time}" for between in " T" for time in _TIMES):
        yield dated.str.to_datetime(moment, time_unit="us", strict=False)


def _date_way(cells: pl.Series, shape: str, date: str) -> pl.Expr | None:
    dated = pl.when(pl.col(cells.name).str.contains(shape)).then(pl.col(cells.name))
    for way in _dates(dated, date):
        if not _unread(cells, way):
            return way
    return None


def _days(cells: pl.Series, order: str) -> pl.Series:
    return cells.str.replace(r"[ T].*$", "").str.to_date(order, strict=False)


def _fits(cells: pl.Series, order: str) -> bool:
    return not _days(cells, order).null_count()


def _same(cells: pl.Series, first: str, second: str) -> bool:
    return bool((_days(cells, first) == _days(cells, second)).all())
