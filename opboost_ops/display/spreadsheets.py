"""Tables for programs: CSV, in which a spreadsheet takes no cell for a formula."""

import csv
import io
from collections.abc import Iterable, Sequence

from opboost_ops.display.blocks import Table, Value

#: How spreadsheets recognise a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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
    writer.writerow(heads)
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def table_csv(table: Table) -> str:
    """A view's table as CSV, with all its columns."""
    rows = ([cell.plain for cell in row] for row in table.rows)
    return csv_text(table.columns, rows, table.preamble)


def _cell(value: Value) -> Value:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
