"""What a page and its downloads say, as text."""

import csv
import io
import re

from tests.unit.pages.conftest import Reader


def plain(html: str) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def rows(reader: Reader, page: str, table: str) -> list[dict[str, str]]:
    """A table as it is downloaded."""
    reply = reader.get(f"/opboost/{page}{'&' if '?' in page else '?'}csv={table}")
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(reply.text)))
