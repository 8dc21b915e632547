"""What a page and its downloads say, as text."""

import csv
import html
import io
import re
from collections.abc import Iterable, Iterator

from httpx import Response

from tests.integration.orchestration.pages.conftest import Reader


def plain(text: str) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def rows(reader: Reader, page: str, table: str) -> list[dict[str, str]]:
    """A table as it is downloaded."""
    reply = reader.get(f"/opboost/{page}{'&' if '?' in page else '?'}csv={table}")
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(reply.text)))


def row(reader: Reader, page: str, table: str, **cells: str) -> dict[str, str]:
    """The one row of a table that has these cells."""
    (found,) = (line for line in rows(reader, page, table) if cells.items() <= line.items())
    return found


def crawl(reader: Reader, begin: Iterable[str]) -> Iterator[tuple[str, Response]]:
    """Pages, and all to which links lead from them, each with its reply."""
    waiting = sorted(begin)
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        reply = reader.get(f"/opboost/{path}")
        yield path, reply
        links = re.findall(r'(?:href|src)="/opboost/([^"#]+)"', reply.text)
        new = {html.unescape(link) for link in links} - seen
        seen |= new
        waiting += sorted(new)
