"""A view's tables on a terminal."""

from typing import Literal

from rich.table import Table as RichTable
from rich.text import Text

from opboost_ops.reports.display.blocks import Table

#: So long a name of what a row is about stays on one line, to be copied into another command.
_NAME = 16

_COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "muted": "dim"}


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
