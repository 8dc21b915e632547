"""Responses of a route: a page, one of its tables as CSV, or a document of the package."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from markdown_it import MarkdownIt
from markdown_it.token import Token

from opboost_ops.config.resources import shipped
from opboost_ops.orchestration.pages.access import parties
from opboost_ops.reports.display.blocks import Section, tables
from opboost_ops.reports.display.html import Page, page_html
from opboost_ops.reports.display.tables import table_csv

#: The document that explains each page, by the first part of the page's path.
ABOUT = {
    "status": "pages",
    "ledger": "ledger",
    "models": "scoring",
    "exchange": "exchange",
    "quality": "add-a-party#check-data-and-tighten-the-checks",
    "run": "runbook",
}

#: The pages in the navigation: path, title, and purpose.
PAGES = (
    ("status", "Status", "Whether each federation runs, since when, and what blocks it."),
    ("ledger", "Privacy ledger", "What each party released, what it cost, and what is left."),
    ("models", "Models", "Which version is in use, how it was trained, and why it was promoted."),
    ("exchange", "Exchange", "Who sent what to whom, and whether each artifact is verified."),
    ("quality", "Data quality", "Which checks passed, run by run."),
)

_DOCUMENT = re.compile(r"(?:\.\./)?([a-z0-9-]+)\.md(#.*)?")


def answer(request: Request, page: Page) -> Response:
    """Return a page, or the table of it that the query's ``csv`` names by party and table.

    Raises:
        HTTPException: 404, there is no such table.
    """
    base = request.scope.get("root_path", "")
    path = request.scope["path"].removeprefix(base).strip("/")
    query = {k: v for k, v in request.query_params.items() if v}
    if csv := query.pop("csv", ""):
        return _download(path, [*page.parts, Section("", tuple(page.top))], csv)
    deployed, about = bool(parties()), ABOUT[path.split("/")[0]]
    context = {"base": base, "query": query, "pages": PAGES, "deployed": deployed, "about": about}
    return HTMLResponse(page_html(page, path=path, **context))


def _download(path: str, sections: Sequence[Section], csv: str) -> Response:
    party, _, name = csv.partition(".")
    for section in sections:
        for block in tables(section.blocks):
            if (section.party, block.name) == (party, name):
                file = f"opboost-{path.split('/')[0]}-{party}-{name}.csv"
                disposition = {"Content-Disposition": f'attachment; filename="{file}"'}
                text = table_csv(block)
                return Response(text, media_type="text/csv; charset=utf-8", headers=disposition)
    raise HTTPException(404)


@lru_cache(maxsize=64)
def document(name: str) -> tuple[str, str] | None:
    """Return a document's title and HTML, with links to other documents only.

    Args:
        name: File name without its suffix.

    Returns:
        None if there is no such document.
    """
    file = shipped("docs") / f"{name}.md"
    if not re.fullmatch("[a-z0-9-]+", name) or not file.is_file():
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(file.read_text(encoding="utf-8"))
    title = name
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            # The same anchors as in the published documentation.
            words = re.sub(r"[^\w\s-]", "", token.content.lower()).split()
            before.attrSet("id", re.sub("-+", "-", "-".join(words)))
            title = token.content if before.tag == "h1" else title
        token.children = [_linked(child) for child in token.children or ()]
    return title, str(parser.renderer.render(tokens, parser.options, {}))


def _linked(token: Token) -> Token:
    """Keep links to other documents; replace other links and images by their text."""
    if token.type == "image":
        return Token("text", "", 0, content=token.content)
    if token.type == "link_open":
        to = str(token.attrGet("href"))
        match = _DOCUMENT.fullmatch(to)
        if match and (shipped("docs") / f"{match[1]}.md").is_file():
            token.attrSet("href", f"{match[1]}{match[2] or ''}")
        elif not to.startswith("#"):
            token.attrs = {}
    return token
