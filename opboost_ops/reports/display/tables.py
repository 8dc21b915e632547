"""Tables as text: CSV that a spreadsheet takes no formula from, and tables of a terminal."""

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


#: How spreadsheets recognise a formula; some also by the wide forms of these signs.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"

#: Where a cell may begin: at the beginning; and inside one, where a country's spreadsheets separate
#: cells by something else than commas, and so see no quotes around it. Each with the formula there.
_BEGINNINGS = tuple(
    rf"{begin}(['\" ]*[{signs}])"
    for begin, signs in (("^()", rf"{_SIGNS}\t\r"), (r"([;\t\r\n])", _SIGNS))
)

#: So long a name of what a row is about stays on one line, to be copied into another command.
_NAME = 16

_COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "muted": "dim"}


def csv_text(
    heads: Sequence[str],
    rows: Iterable[Sequence[Value]],
    preamble: Iterable[tuple[str, str]] = (),
) -> str:
    """A table as CSV.

    Args:
        heads: Its columns.
        rows: Its cells; None is an empty one.
        preamble: Names and values above the head.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows(map(_cell, pair) for pair in preamble)
    writer.writerow(map(_cell, heads))
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def plain_texts(frame: "pl.DataFrame", exact: Container[str] = ()) -> "pl.DataFrame":
    """A frame in whose CSV a spreadsheet takes no cell for a formula.

    Args:
        frame: The frame.
        exact: Columns of its owner's, which programs join by: they stay as they are.
    """
    import polars as pl

    texts = [n for n, kind in frame.schema.items() if kind == pl.String and n not in exact]
    safe = frame
    for beginning in _BEGINNINGS:
        safe = safe.with_columns(pl.col(texts).str.replace_all(beginning, "${1}'${2}"))
    return safe.rename({name: str(_cell(name)) for name in safe.columns if name not in exact})


def text_of(cell: str) -> str:
    """A text that was written as a cell, and came back from a spreadsheet."""
    for beginning in reversed(_BEGINNINGS):
        cell = re.sub(beginning.replace("(['", "'(['"), r"\1\2", cell)
    return cell


def table_csv(table: Table) -> str:
    """A view's table as CSV, with all its columns."""
    rows = ([cell.plain for cell in row] for row in table.rows)
    return csv_text(table.columns, rows, table.preamble)


def _cell(value: Value) -> Value:
    if isinstance(value, str):
        for beginning in _BEGINNINGS:
            value = re.sub(beginning, r"\1'\2", value)
    return value


def plain(text: object, style: str = "") -> Text:
    """Text that neither colours nor moves a terminal, whatever a stranger put into it."""
    shown = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return Text("".join(shown), style)


def rich_table(table: Table) -> RichTable:
    """A view's table; its cells are folded, never cut.

    Args:
        table: The table.
    """
    shown = RichTable(title=plain(table.title), caption=None if table.rows else table.empty)
    for at in table.shown:
        number = bool(table.rows) and table.rows[0][at].number
        name = at == table.shown[0] and all(len(row[at].text) <= _NAME for row in table.rows)
        justify: Literal["right", "left"] = "right" if number else "left"
        shown.add_column(table.columns[at], overflow="fold", justify=justify, no_wrap=name)
    for row in table.rows:
        cells = (row[at] for at in table.shown)
        shown.add_row(*(plain(cell.text, _COLOURS.get(cell.state, "")) for cell in cells))
    return shown
