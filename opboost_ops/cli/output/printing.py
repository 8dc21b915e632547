"""Output of commands for people: tables, and blocks of pages; their text may come from anyone."""

import os
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.console import Console

from opboost_ops.reports.display.blocks import Block, Cell, Facts, Fold, Heading, Note, Table
from opboost_ops.reports.display.terminal import plain, rich_table

#: Columns of a table that nobody reads on a terminal: a pipe or a file folds nothing.
_PIPED = 400


def console() -> Console:
    """Where a command prints tables: as wide as the terminal, and as they are in a pipe."""
    terminal = Console()
    narrow = terminal.is_terminal or "COLUMNS" in os.environ
    return terminal if narrow else Console(width=_PIPED)


def print_table(title: str, heads: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table whose cells are folded, never cut.

    Args:
        title: Its title.
        heads: Its columns.
        rows: Its cells; a row may end early.
    """
    texts = (zip_longest(heads, row, fillvalue="") for row in rows)
    cells = tuple(tuple(Cell(str(cell)) for _, cell in row) for row in texts)
    console().print(rich_table(Table("", title, tuple(heads), cells)))


def print_line(text: object, style: str = "") -> None:
    """Print a line that neither colours nor moves a terminal by what a stranger put into it.

    Args:
        text: The line.
        style: Its colour, such as ``red``.
    """
    console().print(plain(text, style), soft_wrap=True)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print all that is no picture of a page or a document; nothing is cut.

    Args:
        blocks: What it shows.
    """
    for block in blocks:
        if isinstance(block, Table):
            console().print(rich_table(block))
            for line in filter(None, (block.note, block.said_once)) if block.rows else ():
                print_line(line, "dim")
        elif isinstance(block, Facts):
            for fact in block.facts:
                hint = f" ({fact.hint})" if fact.hint else ""
                print_line(f"{fact.label}: {fact.value}{hint}")
        elif isinstance(block, Note):
            print_line(" ".join(filter(None, (block.text, block.remedy))))
            for line in block.lines:
                print_line(f"- {line}")
        elif isinstance(block, Heading):
            print_line(block.text, "bold")
        elif isinstance(block, Fold):
            print_blocks([Heading(block.title), *block.blocks])
