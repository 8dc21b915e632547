"""What a route answers with: a page, or one of its tables as CSV."""

from collections.abc import Sequence

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from opboost_ops.pages.blocks import Block, Section, tables
from opboost_ops.pages.rendering import Filter, page_html, table_csv


def answer(
    request: Request,
    path: str,
    title: str,
    lead: str,
    found: Sequence[Section],
    csv: str,
    filters: Sequence[Filter] = (),
    back: tuple[str, str] | None = None,
    top: Sequence[Block] = (),
    ways: Sequence[tuple[str, str]] = (),
) -> Response:
    """A page, or one of its tables as CSV.

    Args:
        request: The request.
        path: The page's, below the pages' own.
        title: Its title.
        lead: What it is, in a sentence.
        found: Its parts.
        csv: Party and name of a table, with a dot between them; empty for the page.
        filters: By what it can be narrowed.
        back: Words and path of the page above it.
        top: What stands above all parts.
        ways: Words and path of links beside the filters.

    Raises:
        HTTPException: 404, there is no such table.
    """
    if csv:
        return _download(path, found, csv)
    query = {k: v for k, v in request.query_params.items() if v and k != "csv"}
    html = page_html(
        base=request.scope.get("root_path", ""),
        path=path,
        title=title,
        lead=lead,
        query=query,
        parts=found,
        filters=filters,
        back=back,
        top=top,
        ways=ways,
    )
    return HTMLResponse(html)


def _download(path: str, found: Sequence[Section], csv: str) -> Response:
    party, _, name = csv.partition(".")
    for section in found:
        for block in tables(section.blocks):
            if (section.party, block.name) == (party, name):
                file = f"opboost-{path.split('/')[0]}-{party}-{name}.csv"
                disposition = {"Content-Disposition": f'attachment; filename="{file}"'}
                return Response(
                    table_csv(block), media_type="text/csv; charset=utf-8", headers=disposition
                )
    raise HTTPException(404)
