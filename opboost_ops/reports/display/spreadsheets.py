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
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


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
    formula = f"^[{''.join(map(re.escape, _FORMULA))}]"
    safe = frame.with_columns(
        pl.when(pl.col(name).str.contains(formula))
        .then(pl.concat_str(pl.lit("'"), pl.col(name)))
        .otherwise(pl.col(name))
        .alias(name)
        for name in texts
    )
    return safe.rename({name: str(_cell(name)) for name in safe.columns if name not in exact})


def text_of(cell: str) -> str:
    """A text that was written as a cell, and came back from a spreadsheet."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA) else cell


def table_csv(table: Table) -> str:
    """A view's table as CSV, with all its columns."""
    rows = ([cell.plain for cell in row] for row in table.rows)
    return csv_text(table.columns, rows, table.preamble)


def _cell(value: Value) -> Value:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
