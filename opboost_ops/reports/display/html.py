"""Renders blocks as HTML: pages of the plugin, self-contained documents, notebook figures."""

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

#: Number of tables and figures from which a section gets anchors, as it exceeds a screen.
_ANCHORS_FROM = 4

_STYLE = _HERE / "static" / "style.css"


@dataclass(frozen=True)
class Filter:
    """A form field that filters a page.

    Attributes:
        name: Name of the query field.
        label: Displayed label.
        kind: A run's id, a date, or one of ``choices``.
        choices: The choices.
        shown: Value if the query has none.
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
        parts: Sections by party.
        filters: Form fields that filter it.
        back: Text and path of the parent page.
        top: Blocks above the sections.
        presets: Links to frequent queries: text and query string.
    """

    title: str
    lead: str
    parts: Sequence[Section] = ()
    filters: Sequence[Filter] = ()
    back: tuple[str, str] | None = None
    top: Sequence[Block] = ()
    presets: Sequence[tuple[str, str]] = ()


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
    """Render a page.

    Args:
        page: The page.
        path: Its path below the pages' mount point.
        base: The pages' mount point.
        query: The current query, which links on the page keep.
        pages: Pages of the navigation: path, title and purpose.
        deployed: True if the server has any party.
        about: The document that explains the page, optionally with an anchor.
    """

    def link(**changes: str | int | None) -> str:
        """Return a link to this page with a changed query."""
        changed = {**query, **changes}
        entries = {k: v for k, v in changed.items() if v not in (None, "")}
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
    """Render a document of the package in the pages' frame.

    Args:
        title: Its title.
        html: Its HTML, from a file of the package.
        base: The pages' mount point.
        pages: Pages of the navigation: path, title and purpose.
    """
    text = Markup(html)  # noqa: S704  A file of this package, in which no HTML is let through.
    return _template("text.html").render(title=title, text=text, base=base, pages=pages, path="")


def document_html(title: str, lead: str, blocks: Sequence[Block]) -> str:
    """Render a document as a self-contained file; its blocks have no links.

    Args:
        title: Its title.
        lead: One sentence below the title.
        blocks: Its blocks.
    """
    style = Markup(static("style.css").decode())  # noqa: S704  A file of this package.
    return _template("document.html").render(title=title, lead=lead, blocks=blocks, style=style)


def charts_html(title: str, lead: str, charts: Sequence[tuple[str, Markup]]) -> str:
    """Render a document of charts.

    Args:
        title: Its title.
        lead: One sentence below the title.
        charts: Captions and SVGs.
    """
    figures = tuple(Figure(svg, caption) for caption, svg in charts)
    return document_html(title, lead, [Figures("", figures)])


def message_html(title: str, text: str) -> str:
    """Render a page with a single message and no other resources."""
    return _template("message.html").render(title=title, text=text)


def compile_templates() -> None:
    """Compile the templates of pages, so that the first request is fast."""
    compile_documents()
    for name in ("page.html", "text.html", "message.html"):
        _template(name)


def compile_documents() -> None:
    """Compile the templates of documents."""
    for name in ("blocks.html", "document.html"):
        _template(name)


def anchors(part: Section) -> dict[int, tuple[str, str]]:
    """Return the anchors of a section by block index, with id and title; empty if it is short."""
    titled = [
        (at, block.title)
        for at, block in enumerate(part.blocks)
        if isinstance(block, Table | Figures | Fold)
    ]
    titles = [title for _, title in titled]
    if len(titled) < _ANCHORS_FROM:
        return {}
    return {
        at: (f"{part.party or 'part'}-{re.sub('[^a-z0-9]+', '-', title.lower())}", title)
        for at, title in titled
        if titles.count(title) == 1
    }


def static(name: str) -> bytes:
    """Return a static file of the pages."""
    return (_HERE / "static" / name).read_bytes()


def _code(text: str) -> Markup:
    """Render text between backticks as code; everything is escaped."""
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
    """A figure that notebooks display.

    Attributes:
        figure: The figure.
    """

    figure: Figure

    def __repr__(self) -> str:
        return f"Picture({self.figure.caption})"

    def _repr_html_(self) -> str:
        # Scoped by a CSS class, so that other figures of the notebook keep their style.
        return (
            f"<style>.opboost-picture {{ max-width: 36rem; {_rules()} }}</style>"
            f'<figure class="opboost-picture"><figcaption>{escape(self.figure.caption)}'
            f"</figcaption>{self.figure.svg}</figure>"
        )


@cache
def _rules() -> str:
    """Return the style sheet's colours and its rules for charts."""
    lines = _STYLE.read_text(encoding="utf-8").splitlines()
    return " ".join(
        line.strip() for line in lines if line.startswith(("  --", "svg ", ".chart", ".legend"))
    )
