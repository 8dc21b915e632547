"""The documents that ship with the package, as pages: what a page's words mean, and what to do."""

import re
from functools import lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from opboost_ops.config.resources import shipped

#: Of each page, by the first part of its path, the document that explains it.
ABOUT = {
    "status": "pages",
    "ledger": "ledger",
    "models": "scoring",
    "exchange": "exchange",
    "quality": "add-a-party#check-data-and-tighten-the-checks",
    "run": "runbook",
}

_DOCUMENT = re.compile(r"(?:\.\./)?([a-z0-9-]+)\.md(#.*)?")


@lru_cache(maxsize=64)
def document(name: str) -> tuple[str, str] | None:
    """A document's title and its HTML, in which links lead to documents alone.

    Args:
        name: Its name, without the ending.

    Returns:
        None where there is none.
    """
    file = shipped("docs") / f"{name}.md"
    if not re.fullmatch("[a-z0-9-]+", name) or not file.is_file():
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(file.read_text(encoding="utf-8"))
    title = name
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            # As the documents' own site calls a place.
            words = re.sub(r"[^\w\s-]", "", token.content.lower()).split()
            before.attrSet("id", re.sub("-+", "-", "-".join(words)))
            title = token.content if before.tag == "h1" else title
        token.children = [_within(child) for child in token.children or ()]
    return title, str(parser.renderer.render(tokens, parser.options, {}))


def _within(token: Token) -> Token:
    """A link to another document leads there; one to anything else, and a picture, is its words."""
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
