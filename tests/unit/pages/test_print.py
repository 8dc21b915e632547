"""The statement on paper: all that is needed is there, whole, and no more."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.pages.served import shot

pytestmark = pytest.mark.slow

#: A4 less the margins of the style sheet, at 96 pixels an inch.
PAPER = 703

#: What is wrong with the page as it would be printed.
FAULTS = """() => {
  const faults = [], seen = element => element.checkVisibility({visibilityProperty: true});
  const tell = (what, of) => faults.push(`${what}: ${of.tagName} ${of.innerText}`.slice(0, 90));
  const needed = 'h1, h2, h3, dt, dd, td, th, figure, .note, .hint';
  for (const element of document.querySelectorAll(needed)) {
    if (!element.innerText.trim()) continue;
    const box = element.getBoundingClientRect();
    if (!seen(element) || box.width === 0) tell('hidden', element);
    else if (box.left < 0 || box.right > innerWidth + 1) tell('beyond the edge', element);
    else if (element.clientWidth && element.scrollWidth > element.clientWidth + 1)
      tell('cut', element);
  }
  for (const element of document.querySelectorAll('.scroll'))
    if (element.scrollWidth > element.clientWidth + 1) tell('scrolls', element);
  for (const element of document.querySelectorAll('nav, form, .button, .jump, .skip, .more'))
    if (seen(element)) tell('of no use on paper', element);
  return faults;
}"""

SINCE = "since=2026-01-01"

#: Colours of the page.
COLOURS = """() => {
  const style = getComputedStyle(document.body);
  return [style.color, style.backgroundColor];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "history", "path", "needed"),
    [
        (
            "statement",
            "twelve",
            f"ledger?{SINCE}&until=2026-01-31",
            ("2026-01-01 to 2026-01-31", "Audit log's head", "savings_rate", "What was decided"),
        ),
        (
            "refused",
            "refused",
            f"ledger?{SINCE}",
            ("No budget is left.", "refused", "all of it: the first"),
        ),
    ],
)
def test_paper_has_all_that_is_needed(
    name: str,
    history: str,
    path: str,
    needed: tuple[str, ...],
    theme: Any,
    look: Callable[..., Any],
) -> None:
    page = look(history, path, PAPER, color_scheme=theme)
    screen = page.inner_text("body")
    page.emulate_media(media="print")
    shot(page, f"print-{name}-{theme}")
    assert page.evaluate(FAULTS) == []
    paper = page.inner_text("body")
    for words in needed:
        assert words in screen, words
        assert words in paper, words
    # Dark ink on white, whatever the screen has.
    ink, ground = page.evaluate(COLOURS)
    assert brightness(ink) < 0.4, ink
    assert brightness(ground) > 0.9, ground
    assert page.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"


def brightness(colour: str) -> float:
    """From 0 to 1; what is transparent is paper."""
    form, _, inside = colour.partition("(")
    parts = [float(part) for part in re.findall(r"[\d.]+", inside)]
    if len(parts) == 4 and parts[3] == 0:
        return 1.0
    return parts[0] if form == "oklch" else sum(parts[:3]) / 765
