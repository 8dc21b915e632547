"""Blocks of pages in print."""

from collections.abc import Iterable

from rich.console import Console

from opboost_ops.display.blocks import Block, Facts, Fold, Heading, Note, Table
from opboost_ops.display.terminal import plain, rich_table


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Print all that is no picture; nothing is cut.

    Args:
        blocks: Of a page or a document.
        console: Where.
    """
    for block in blocks:
        if isinstance(block, Table):
            console.print(rich_table(block))
            if block.note and block.rows:
                console.print(plain(block.note, "dim"), soft_wrap=True)
        elif isinstance(block, Facts):
            for fact in block.facts:
                hint = f" ({fact.hint})" if fact.hint else ""
                console.print(plain(f"{fact.label}: {fact.value}{hint}"), soft_wrap=True)
        elif isinstance(block, Note):
            console.print(plain(" ".join(filter(None, (block.text, block.remedy)))), soft_wrap=True)
            for line in block.lines:
                console.print(plain(f"- {line}"), soft_wrap=True)
        elif isinstance(block, Heading):
            console.print(plain(block.text, "bold"), soft_wrap=True)
        elif isinstance(block, Fold):
            console.print(plain(block.title, "bold"), soft_wrap=True)
            print_blocks(block.blocks, console)
