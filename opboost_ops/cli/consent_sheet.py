"""The consent sheet on a terminal and as a page."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from opboost_ops.cli.blocks import print_blocks
from opboost_ops.display.html import document_html
from opboost_ops.display.terminal import plain
from opboost_ops.views import consent_words

if TYPE_CHECKING:
    from opboost_ops.views.consent_sheet import ConsentSheet


def print_sheet(sheet: "ConsentSheet", console: Console) -> None:
    """Print all of it; nothing is cut.

    Args:
        sheet: The sheet.
        console: Where.
    """
    console.print(plain(consent_words.title(sheet), "bold"), soft_wrap=True)
    print_blocks(consent_words.blocks(sheet), console)


def write_page(sheet: "ConsentSheet", file: Path) -> None:
    """Write it as one HTML file that loads nothing and can be printed.

    Args:
        sheet: The sheet.
        file: Where.
    """
    lead = f"Digest of what is agreed to: {sheet.digest}"
    text = document_html(consent_words.title(sheet), lead, consent_words.blocks(sheet))
    file.write_text(text, encoding="utf-8")
