"""Tables for programs: CSV, in which a spreadsheet takes no cell for a formula."""

import csv
import io
import re
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

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
