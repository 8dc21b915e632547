"""Blocks become HTML without scripts of their own, and tables become CSV."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from opboost_ops.pages.blocks import Block, Figures, Fold, Section, Table
from opboost_ops.pages.deployment import parties
from opboost_ops.pages.spreadsheets import csv_text

_HERE = Path(__file__).resolve().parent

#: The pages of the navigation: path, title, and what they are for.
PAGES = (
    ("status", "Status", "Is each federation on, since when, and what stands in its way."),
    ("ledger", "Privacy ledger", "What each party released, what it cost, and what is left."),
    ("models", "Models", "Which version is in use, how it came to be, and on what it stands."),
    ("exchange", "Exchange", "Who sent what to whom, and whether it is what it claims to be."),
    ("quality", "Data quality", "Which checks passed, run by run."),
    ("monthly", "Month", "Is it on, what is it worth, what has it cost, and what went wrong."),
    ("statement", "Statement", "What left in a period, what it cost, and who decided what."),
)


#: So many tables and pictures are more than a screen.
_LONG = 4


@dataclass(frozen=True)
class Filter:
    """A field by which a page can be narrowed.

    Attributes:
        name: Of the field, as in the address.
        label: For people.
        kind: A run's id, a day, or one of some words.
        choices: Those words.
        shown: What it holds where nothing is asked for.
    """

    name: str
    label: str
    kind: Literal["run", "date", "choice"]
    choices: Sequence[str] = ()
    shown: str = ""


def page_html(
    *,
    base: str,
    path: str,
    title: str,
    lead: str,
    query: Mapping[str, str],
    parts: Sequence[Section],
    filters: Sequence[Filter] = (),
    back: tuple[str, str] | None = None,
    top: Sequence[Block] = (),
    ways: Sequence[tuple[str, str]] = (),
) -> str:
    """A whole page.

    Args:
        base: Where these pages are mounted.
        path: The page's own path below that.
        title: Its title.
        lead: One sentence below the title.
        query: What was asked for; links on the page keep it.
        parts: By party.
        filters: Fields by which the page can be narrowed.
        back: Text and path of the page above.
        top: What stands above the parties' parts.
        ways: Texts of what is asked for most, and the rest of their address.
    """

    def link(**changes: str | int | None) -> str:
        """This page with another question."""
        asked = {**query, **changes}
        given = {k: v for k, v in asked.items() if v not in (None, "")}
        return f"{base}/{path}{'?' + urlencode(given) if given else ''}"

    return (
        _environment()
        .get_template("page.html")
        .render(
            base=base,
            root=base.removesuffix("/opboost"),
            top=top,
            path=path,
            title=title,
            lead=lead,
            query=query,
            parts=parts,
            filters=filters,
            ways=ways,
            back=back,
            pages=PAGES,
            deployed=bool(parties()),
            link=link,
        )
    )


def make_ready() -> None:
    """Compile the templates, which no reader should wait for."""
    for name in ("page.html", "message.html"):
        _environment().get_template(name)


def message_html(title: str, text: str) -> str:
    """A page that says one thing and loads nothing."""
    return _environment().get_template("message.html").render(title=title, text=text)


def anchors(part: Section) -> dict[int, tuple[str, str]]:
    """What a party's part of a page can jump to: by its place among the blocks, name and title.

    Args:
        part: The part; where it is short enough to be seen whole there is nothing.
    """
    titled = [
        (at, block.title)
        for at, block in enumerate(part.blocks)
        if isinstance(block, Table | Figures | Fold)
    ]
    titles = [title for _, title in titled]
    if len(titled) < _LONG:
        return {}
    return {
        at: (f"{part.party or 'part'}-{re.sub('[^a-z0-9]+', '-', title.lower())}", title)
        for at, title in titled
        if titles.count(title) == 1
    }


def table_csv(table: Table) -> bytes:
    """A table for a spreadsheet; no cell of it is taken for a formula.

    Args:
        table: The table.
    """
    rows = ([cell.plain for cell in row] for row in table.rows)
    return csv_text(table.columns, rows, table.preamble).encode()


def static(name: str) -> bytes:
    """A file that the pages load.

    Args:
        name: Its name.
    """
    return (_HERE / "static" / name).read_bytes()


def _code(text: str) -> Markup:
    """Text with what stands between two backticks as a command; all of it escaped."""
    parts = [str(escape(part)) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    told = [f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts)]
    return Markup("".join(told))  # noqa: S704  Every part is escaped above.


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {
        "words": lambda text: text.replace("_", " "),
        "code": _code,
        "anchors": anchors,
    }
    made.filters.update(helpers)
    return made
