"""The response of a route: a page, or one of its tables as CSV."""

from collections.abc import Sequence

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from opboost_ops.orchestration.pages.access import parties
from opboost_ops.orchestration.pages.documents import ABOUT
from opboost_ops.reports.display.blocks import Section, tables
from opboost_ops.reports.display.html import Page, page_html
from opboost_ops.reports.display.spreadsheets import table_csv

#: The pages of the navigation: path, title, and what they are for.
PAGES = (
    ("status", "Status", "Whether each federation runs, since when, and what blocks it."),
    ("ledger", "Privacy ledger", "What each party released, what it cost, and what is left."),
    ("models", "Models", "Which version is in use, how it was trained, and why it was promoted."),
    ("exchange", "Exchange", "Who sent what to whom, and whether each artifact is verified."),
    ("quality", "Data quality", "Which checks passed, run by run."),
)


def answer(request: Request, page: Page) -> Response:
    """A page, or one of its tables as CSV: ``csv`` in the address names party and table.

    Args:
        request: The request.
        page: The page.

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
