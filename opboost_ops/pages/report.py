"""A page of charts as one file, for what a party draws at home: it loads nothing from outside."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup, escape

_STYLE = Path(__file__).resolve().parent / "static" / "style.css"


def report_html(title: str, lead: str, figures: Sequence[tuple[str, Markup]]) -> str:
    """The whole page.

    Args:
        title: Its title.
        lead: One sentence below the title.
        figures: Captions and charts, in their order.
    """
    drawn = "".join(
        f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"
        for caption, svg in figures
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body><main><h1>{escape(title)}</h1><p>{escape(lead)}</p>"
        f'<div class="figures">{drawn}</div></main></body></html>\n'
    )
