"""Cells of tables for people; their text may come from anyone."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

#: Columns of a table that nobody reads on a terminal: a pipe or a file folds nothing.
_PIPED = 400


def console(*, stderr: bool = False) -> "Console":
    """Where a command prints tables: as wide as the terminal, and as they are in a pipe.

    Args:
        stderr: Whether it prints there.
    """
    from rich.console import Console

    made = Console(stderr=stderr)
    narrow = made.is_terminal or "COLUMNS" in os.environ
    return made if narrow else Console(stderr=stderr, width=_PIPED)


def plain(text: object) -> "Text":
    """Text that neither colours nor moves a terminal, whatever a stranger put into it."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)))


def table(title: str, *heads: str) -> "Table":
    """An empty table whose cells are folded, never cut.

    Args:
        title: Its title.
        heads: Its columns.
    """
    from rich.table import Table

    made = Table(title=plain(title))
    for head in heads:
        made.add_column(head, overflow="fold")
    return made
