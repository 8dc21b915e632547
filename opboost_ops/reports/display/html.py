"""Blocks become HTML: pages of the plugin, documents that load nothing, pictures of notebooks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from opboost_ops.reports.display.blocks import Block, Figure, Figures, Fold, Section, Table

_HERE = Path(__file__).resolve().parent

#: So many tables and pictures are more than a screen.
_LONG = 4

_STYLE = _HERE / "static" / "style.css"


@dataclass(frozen=True)
class Filter:
    """A field by which a page can be narrowed.

    Attributes:
        name: Of the field, as in the address.
        label: For people.
        kind: A run's id, a day, or one of some words.
        choices: Those words.
        shown: Its value where the address has none.
    """

    name: str
    label: str
    kind: Literal["run", "date", "choice"]
    choices: Sequence[str] = ()
    shown: str = ""


@dataclass(frozen=True)
class Page:
    """A page of the plugin.

    Attributes:
        title: Its title.
        lead: One sentence below the title.
        parts: By party.
        filters: Fields by which it can be narrowed.
        back: Text and path of the page above.
        top: Blocks above the parties' parts.
        ways: Texts of frequent questions, and the rest of their addresses.
    """

    title: str
    lead: str
    parts: Sequence[Section] = ()
    filters: Sequence[Filter] = ()
    back: tuple[str, str] | None = None
    top: Sequence[Block] = ()
    ways: Sequence[tuple[str, str]] = ()


def page_html(
    page: Page,
    *,
    path: str,
    base: str,
    query: Mapping[str, str],
    pages: Sequence[tuple[str, str, str]],
    deployed: bool,
    about: str,
) -> str:
    """A whole page.

    Args:
        page: What it shows.
        path: Its path below the pages' own.
        base: Where the pages are mounted.
        query: What was asked for; links on the page keep it.
        pages: Of the navigation: path, title and purpose.
        deployed: Whether the server knows any party.
        about: The document that explains it, and perhaps a place there.
    """

    def link(**changes: str | int | None) -> str:
        """This page with another question."""
        question = {**query, **changes}
        entries = {k: v for k, v in question.items() if v not in (None, "")}
        return f"{base}/{path}{'?' + urlencode(entries) if entries else ''}"

    context = {name: getattr(page, name) for name in Page.__dataclass_fields__}
    context |= {
        "path": path,
        "base": base,
        "root": base.removesuffix("/opboost"),
        "link": link,
        "query": query,
    }
    return _template("page.html").render(**context, pages=pages, deployed=deployed, about=about)


def text_html(title: str, html: str, *, base: str, pages: Sequence[tuple[str, str, str]]) -> str:
    """A document of the package in the pages' frame.

    Args:
        title: Its title.
        html: Its text, of a file of the package.
        base: Where the pages are mounted.
        pages: Of the navigation: path, title and purpose.
    """
    text = Markup(html)  # noqa: S704  A file of this package, in which no HTML is let through.
    return _template("text.html").render(title=title, text=text, base=base, pages=pages, path="")


def document_html(title: str, lead: str, blocks: Sequence[Block]) -> str:
    """A document as one file that loads nothing; its blocks have no links.

    Args:
        title: Its title.
        lead: One sentence below the title.
        blocks: What it shows.
    """
    style = Markup(static("style.css").decode())  # noqa: S704  A file of this package.
    return _template("document.html").render(title=title, lead=lead, blocks=blocks, style=style)


def charts_html(title: str, lead: str, charts: Sequence[tuple[str, Markup]]) -> str:
    """A document of charts.

    Args:
        title: Its title.
        lead: One sentence below the title.
        charts: Captions and pictures.
    """
    figures = tuple(Figure(svg, caption) for caption, svg in charts)
    return document_html(title, lead, [Figures("", figures)])


def message_html(title: str, text: str) -> str:
    """A page that says one thing and loads nothing."""
    return _template("message.html").render(title=title, text=text)


def compile_templates() -> None:
    """Compile the templates of pages before the first reader waits for them."""
    compile_documents()
    for name in ("page.html", "text.html", "message.html"):
        _template(name)


def compile_documents() -> None:
    """Compile the templates of documents."""
    for name in ("blocks.html", "document.html"):
        _template(name)


def anchors(part: Section) -> dict[int, tuple[str, str]]:
    """Places that a party's part of a page can jump to, among its blocks, with name and title.

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
    pieces = [f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts)]
    return Markup("".join(pieces))  # noqa: S704  Every part is escaped above.


def _template(name: str) -> Template:
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(code=_code, anchors=anchors)
    return environment


@dataclass(frozen=True)
class Picture:
    """A picture that a notebook shows.

    Attributes:
        figure: What it shows.
    """

    figure: Figure

    def __repr__(self) -> str:
        return f"Picture({self.figure.caption})"

    def _repr_html_(self) -> str:
        # Inside a class of its own: other pictures of a notebook keep their style.
        return (
            f"<style>.opboost-picture {{ max-width: 36rem; {_rules()} }}</style>"
            f'<figure class="opboost-picture"><figcaption>{escape(self.figure.caption)}'
            f"</figcaption>{self.figure.svg}</figure>"
        )


@cache
def _rules() -> str:
    """The style sheet's colours and its rules of pictures."""
    lines = _STYLE.read_text(encoding="utf-8").splitlines()
    return " ".join(
        line.strip() for line in lines if line.startswith(("  --", "svg ", ".chart", ".legend"))
    )
