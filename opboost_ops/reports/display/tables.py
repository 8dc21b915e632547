"""Tables as text: CSV that is safe from formula injection, and terminal tables."""

import csv
import io
import re
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rich.table import Table as RichTable
from rich.text import Text

from opboost_ops.reports.display.blocks import Table, Value

if TYPE_CHECKING:
    import polars as pl


#: Characters that begin a formula in spreadsheets, including full-width forms.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"

#: Places where a spreadsheet may see a cell begin, each with the formula there: at the start, and
#: inside a cell if the locale separates cells by other characters than commas and ignores quotes.
_PLACES = (
    ("^()", rf"(['\" ]*[{_SIGNS}\t\r])"),
    (r"([;\t\r\n])", rf"(['\" ]*[{_SIGNS}])"),
)

#: Patterns of formulas, and of formulas that an apostrophe before them has made text.
_FORMULAS = tuple(place + formula for place, formula in _PLACES)
_ESCAPED = tuple(f"{place}'{formula}" for place, formula in reversed(_PLACES))

#: Longest name in the first column that is kept on one line, so that it can be copied.
_MAX_NAME = 16

_COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "muted": "dim"}


def csv_text(
    heads: Sequence[str],
    rows: Iterable[Sequence[Value]],
    preamble: Iterable[tuple[str, str]] = (),
) -> str:
    """Format a table as CSV.

    Args:
        heads: Column heads.
        rows: Rows of cells; None is an empty one.
        preamble: Names and values above the head.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows(map(_cell, pair) for pair in preamble)
    writer.writerow(map(_cell, heads))
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def plain_texts(frame: "pl.DataFrame", exact: Container[str] = ()) -> "pl.DataFrame":
    """Escape a frame's texts, so that no cell of its CSV becomes a formula in a spreadsheet.

    Args:
        frame: The frame.
        exact: Columns to leave unchanged, because programs join by them.
    """
    import polars as pl

    texts = [n for n, kind in frame.schema.items() if kind == pl.String and n not in exact]
    safe = frame
    for formula in _FORMULAS:
        safe = safe.with_columns(pl.col(texts).str.replace_all(formula, "${1}'${2}"))
    return safe.rename({name: str(_cell(name)) for name in safe.columns if name not in exact})


def text_of(cell: str) -> str:
    """Undo the escaping of a cell that came back from a spreadsheet."""
    for escaped in _ESCAPED:
        cell = re.sub(escaped, r"\1\2", cell)
    return cell


def table_csv(table: Table) -> str:
    """Format a table block as CSV, with all its columns."""
    rows = ([cell.plain for cell in row] for row in table.rows)
    return csv_text(table.columns, rows, table.preamble)


def _cell(value: Value) -> Value:
    if isinstance(value, str):
        for formula in _FORMULAS:
            value = re.sub(formula, r"\1'\2", value)
    return value


def plain(text: object, style: str = "") -> Text:
    """Return text without control characters, which could colour or move a terminal."""
    shown = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return Text("".join(shown), style)


def rich_table(table: Table) -> RichTable:
    """Convert a table block to a rich table; cells are folded, never cut off."""
    shown = RichTable(title=plain(table.title), caption=None if table.rows else table.empty)
    for at in table.shown:
        number = bool(table.rows) and table.rows[0][at].number
        name = at == table.shown[0] and all(len(row[at].text) <= _MAX_NAME for row in table.rows)
        justify: Literal["right", "left"] = "right" if number else "left"
        shown.add_column(table.columns[at], overflow="fold", justify=justify, no_wrap=name)
    for row in table.rows:
        cells = (row[at] for at in table.shown)
        shown.add_row(*(plain(cell.text, _COLOURS.get(cell.state, "")) for cell in cells))
    return shown
