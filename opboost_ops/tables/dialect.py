"""Parses cells of a CSV file by its declared dialect, without guessing at ambiguous formats."""

import re
from collections.abc import Iterator

import polars as pl

from opboost_ops.config.source import Source

#: Number of cells that are tried first, to rule out formats cheaply.
_SAMPLE = 100

#: Maximum number of distinct texts that count as categories, whatever they look like.
_MAX_CATEGORIES = 20

#: Share of numbers above which the other cells are taken for missing values.
_MOSTLY_NUMBERS = 0.8

#: Unambiguous dates: ISO, and day first between points.
_PLAIN_DATES = (
    (r"^\d{4}-\d{1,2}-\d{1,2}", "%Y-%m-%d"),
    (r"^\d{4}/\d{1,2}/\d{1,2}", "%Y/%m/%d"),
    (r"^\d{1,2}\.\d{1,2}\.\d{4}", "%d.%m.%Y"),
)
#: Dates with day or month first, by separator.
_TWO_ORDERS = (
    (r"^\d{1,2}/\d{1,2}/\d{4}", "%d/%m/%Y", "%m/%d/%Y"),
    (r"^\d{1,2}-\d{1,2}-\d{4}", "%d-%m-%Y", "%m-%d-%Y"),
)
_TIMES = ("%H:%M:%S%.f", "%H:%M")
_ZONE = "%Y-%m-%d %H:%M:%S%.f%#z"

_LIKE_A_DATE = r"^\d{1,2}([./-])\d{1,2}[./-](\d{2}|\d{4})([ T].*)?$"
_LIKE_A_NUMBER = r"^[+-]?\d[\d.,' \x{a0}\x{202f}\x{2019}]*$"
#: 20240301, which may be an integer or a date.
_COMPACT_DATE = r"^(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_LIKE_ISO = r"^\d{4}[-/]\d"
_SPACES = r"[ \x{a0}\x{202f}]"

_DATES_REMEDY = (
    "declare their format, for example `dates: '%d.%m.%Y'`, in site.yaml or by --dialect"
)
_NUMBERS_REMEDY = (
    "declare their signs, for example `decimal: ',', thousands: '.'`, in site.yaml or by --dialect"
)
_TEXTS_REMEDY = "convert the column, or declare its type as ordinal or nominal"
_WORDS_REMEDY = "add the texts of missing values to `missing` in site.yaml, or correct them"


def present_cells(name: str, missing: list[str]) -> pl.Expr:
    """Return an expression of a column's cells, stripped, with missing ones as null."""
    stripped = pl.col(name).str.strip_chars()
    return pl.when(~stripped.is_in(missing)).then(stripped)


def numbers(cell: pl.Expr, source: Source, kind: type[pl.DataType]) -> pl.Expr:
    """Return an expression that parses cells as numbers; null if not in the declared dialect.

    Args:
        cell: Stripped text.
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
    # U+2212, the minus sign that spreadsheets of some locales write.
    plain = cell.str.replace("\u2212", "-", literal=True)
    if source.thousands:
        plain = plain.str.replace_all(sign, "")
    if source.decimal != ".":
        plain = plain.str.replace(source.decimal, ".", literal=True)
    return pl.when(cell.str.contains(shape)).then(plain.cast(kind, strict=False))


def parser_of(cells: pl.Series, source: Source, kind: str | None) -> pl.Expr | None:
    """Return the first format that parses all cells of a column.

    Args:
        cells: All present cells, as stripped text.
        source: The dialect.
        kind: Expected kind; None for an undeclared column.

    Returns:
        An expression over a column of the same name; None for plain text.
    """
    cell = pl.col(cells.name)
    if kind is None and cells.str.contains(r"^[+-]?0\d").any() and _all_digits(cells):
        return None  # Codes such as 01067.
    if kind in (None, "date") and not source.dates and cells.str.contains(_COMPACT_DATE).all():
        return None
    parts = [cells[:_SAMPLE], cells] if len(cells) > _SAMPLE else [cells]
    for parser in _parsers(cell, source, kind):
        if not any(_count_unparsed(part, parser) for part in parts):
            return parser
    if kind in (None, "date"):
        for shape, *orders in _TWO_ORDERS:
            if source.dates or not cells.str.contains(shape).all():
                continue
            fits = [order for order in orders if _fits(cells, order)]
            if len(fits) == 1 or (len(fits) == 2 and _same_days(cells, *fits)):
                return _date_parser(cells, shape, fits[0])
    return None


def ambiguity(cells: pl.Series, source: Source, kind: str | None) -> str:
    """Return why cells stay text although they look like values, and the remedy; or nothing.

    Args:
        cells: All present cells, as stripped text.
        source: The dialect.
        kind: Expected kind; None for an undeclared column.
    """
    if not len(cells) or kind == "text":
        return ""
    if cells.str.contains(f"{_LIKE_A_DATE}|{_COMPACT_DATE}").all():
        if source.dates:
            return "its dates do not have the format of `dates` in site.yaml: correct that entry"
        return f"its dates are ambiguous: {_DATES_REMEDY}"
    if cells.str.contains(_LIKE_A_NUMBER).all() and not _all_digits(cells):
        return f"its numbers are ambiguous: {_NUMBERS_REMEDY}"
    # Words in a declared column are refused by type only when people are about to be pinned: the
    # cell of a person with a pin must not end a run.
    if kind is not None or not _mostly_numbers(cells):
        return ""
    unparsed = min(
        _count_unparsed(cells, parser) for parser in _parsers(pl.col(cells.name), source, kind)
    )
    if unparsed < len(cells):
        return f"{unparsed:,} of its {len(cells):,} cells are not numbers or dates: {_WORDS_REMEDY}"
    return f"its cells are not numbers or dates: {_TEXTS_REMEDY}"


def _count_unparsed(cells: pl.Series, parser: pl.Expr) -> int:
    return cells.to_frame().select(parser.alias("parsed")).to_series().null_count()


def _mostly_numbers(cells: pl.Series) -> bool:
    """True for numbers or dates with a few words among them, unless there are few categories."""
    like = cells.str.contains(f"{_LIKE_A_NUMBER}|{_LIKE_A_DATE}|{_LIKE_ISO}")
    few_categories = cells.n_unique() <= _MAX_CATEGORIES
    return (
        not few_categories
        and not _all_digits(cells)
        and float(like.sum()) >= _MOSTLY_NUMBERS * len(cells)
    )


def _all_digits(cells: pl.Series) -> bool:
    return bool(cells.str.contains(r"^[+-]?\d+$").all())


def _parsers(cell: pl.Expr, source: Source, kind: str | None) -> Iterator[pl.Expr]:
    """Yield all formats except plain text; each returns null for cells that it cannot parse."""
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
    """Return an expression that parses ISO dates and datetimes without a zone; a date is midnight.

    Args:
        cell: Stripped text.
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
    """Return an expression that parses ISO datetimes with a zone, as UTC.

    Args:
        cell: Stripped text.
    """
    plain = cell.str.replace("T", " ", literal=True)
    return plain.str.to_datetime(_ZONE, time_unit="us", strict=False)


def _dates(dated: pl.Expr, date: str) -> Iterator[pl.Expr]:
    yield dated.str.to_date(date, strict=False)
    for moment in (f"{date}{between}{time}" for between in " T" for time in _TIMES):
        yield dated.str.to_datetime(moment, time_unit="us", strict=False)


def _date_parser(cells: pl.Series, shape: str, date: str) -> pl.Expr | None:
    dated = pl.when(pl.col(cells.name).str.contains(shape)).then(pl.col(cells.name))
    for parser in _dates(dated, date):
        if not _count_unparsed(cells, parser):
            return parser
    return None


def _days(cells: pl.Series, order: str) -> pl.Series:
    return cells.str.replace(r"[ T].*$", "").str.to_date(order, strict=False)


def _fits(cells: pl.Series, order: str) -> bool:
    return not _days(cells, order).null_count()


def _same_days(cells: pl.Series, first: str, second: str) -> bool:
    return bool((_days(cells, first) == _days(cells, second)).all())
