"""The documentation's site: it builds without a warning, and no page is wider than a screen."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow

#: A phone and a laptop.
WIDTHS = (390, 1440)

#: How far the page, or what its article holds outside of scrolling boxes, goes beyond the screen.
BEYOND = """() => {
  const scrolls = element => element && element.tagName !== 'BODY'
    && (/auto|scroll/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  const ends = [...document.querySelectorAll('article *')]
    .filter(element => !scrolls(element.parentElement))
    .map(element => element.getBoundingClientRect().right);
  return Math.ceil(Math.max(document.documentElement.scrollWidth, ...ends)) - innerWidth;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [Path(sys.executable).with_name("mkdocs"), "build", "--strict", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


def test_it_lists_its_pages_and_asks_no_other_host(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    menu = re.findall(
        r"^ {6}- (?:.+: )?(\S+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert len(menu) > 20
    assert [page for page in menu if f"]({page}.html): " not in listed] == []
    outside = r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//'
    assert [page for page in site.rglob("*.html") if re.search(outside, page.read_text())] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_screen(site: Path, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    wide = {}
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        if (beyond := page.evaluate(BEYOND)) > 0:
            wide[str(file.relative_to(site))] = beyond
    page.close()
    assert wide == {}
