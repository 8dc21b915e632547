"""Blocks on a terminal: facts and notes as lines, tables as tables."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from opboost_ops.display.blocks import Block, Facts, Fold, Heading, Note, Table

_COLOURS = {"good": "green", "bad": "red", "warn": "yellow", "muted": "dim"}


def plain(text: object, style: str = "") -> Text:
    """Text that neither colours nor moves a terminal, whatever a stranger put into it."""
    shown = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return Text("".join(shown), style)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print what a page shows, without its pictures and links.

    Args:
        blocks: Of a view.
    """
    console = Console(soft_wrap=False)
    for block in blocks:
        if isinstance(block, Heading):
            console.print(plain(block.text, "bold"))
        elif isinstance(block, Note):
            style = _COLOURS.get(block.state, "")
            for text in filter(None, (block.text, *block.lines, block.remedy)):
                console.print(plain(text, style), soft_wrap=True)
        elif isinstance(block, Facts):
            for fact in block.facts:
                hint = f" ({fact.hint})" if fact.hint else ""
                line = plain(f"{fact.label}: {fact.value}{hint}", _COLOURS.get(fact.state, ""))
                console.print(line, soft_wrap=True)
        elif isinstance(block, Table):
            console.print(rich_table(block))
        elif isinstance(block, Fold):
            print_blocks(block.blocks)


def rich_table(table: Table) -> RichTable:
    """A view's table; its cells are folded, never cut.

    Args:
        table: The table.
    """
    shown = RichTable(title=plain(table.title), caption=None if table.rows else table.empty)
    for at in table.shown:
        number = bool(table.rows) and table.rows[0][at].number
        shown.add_column(table.columns[at], overflow="fold", justify="right" if number else "left")
    for row in table.rows:
        cells = (row[at] for at in table.shown)
        shown.add_row(*(plain(cell.text, _COLOURS.get(cell.state, "")) for cell in cells))
    return shown
