"""What a screen reader hears: heads with their scope, links that differ, a way past the menu."""

import re

import pytest

from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader

PAGES = (
    "status",
    "ledger",
    "models",
    "exchange",
    "quality",
    "ledger?since=2026-01-01",
    f"run?id={FIRST_RUN}",
    f"models/credit/credit_scoring/{FIRST_RUN}",
)


@pytest.mark.usefixtures("untouched")
def test_links_to_tables_differ_and_heads_have_a_scope(reader: Reader) -> None:
    for path in PAGES:
        page = reader.page(path)
        names = re.findall(r'aria-label="(Download [^"]*)"', page)
        assert len(names) == page.count(">CSV</a>") == len(set(names)), path
        assert re.findall(r"<th(?! scope)[ >]", page) == [], path
        assert '<a class="skip" href="#content">' in page


def test_pages_that_a_run_has_written_have_scopes_too(untouched: Workspace) -> None:
    written = [*untouched.folder.glob("**/quality/*.html"), *untouched.folder.glob("**/card.html")]
    assert {path.name for path in written} >= {"card.html", "raw_table.html"}
    for path in written:
        assert re.findall(r"<th(?! scope)[ >]", path.read_text()) == [], path
