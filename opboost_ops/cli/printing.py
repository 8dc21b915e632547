"""Cells of tables for people, whoever chose their text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


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
