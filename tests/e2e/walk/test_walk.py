"""Each question is walked in Chromium, in as many clicks as docs/pages.md says."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.walk.questions import BOX, QUESTIONS, Question
from tests.unit.pages.served import shot

pytestmark = pytest.mark.slow

DOC = Path(__file__).parents[3] / "docs" / "pages.md"

#: What is left of a laptop's screen inside Airflow's navigation and tabs.
WIDTH, HEIGHT = 1280, 720

#: So much of an answer must be there, at least, without scrolling.
LINE = 40

#: Clicks as the browser has them, over all pages of a walk; a click of a script is none.
COUNT = """addEventListener('click', event => {
  if (event.isTrusted) sessionStorage.clicks = 1 + Number(sessionStorage.clicks || 0);
}, true)"""


def place(page: Any, question: Question) -> Any:
    """What holds an answer: a figure with its name, a card with its title, or a coloured box."""
    if question.where == BOX:
        return page.locator(".note.bad, .note.warn, .note").first
    figure = page.locator(".fact", has=page.get_by_text(question.where, exact=True))
    heading = page.get_by_role("heading", name=question.where, exact=True)
    card = page.locator(".card", has=heading)
    # A figure may have the name of a table; a row is a table's.
    return (card if question.row else figure.or_(card)).first


def line(question: Question) -> str:
    """The line of the document that tells of a walk."""
    start = "the run's tab" if question.begins.startswith("run?") else "Status"
    # A last click that only leads down to the answer has the answer's name.
    steps = [c.told or f"**{c.words}**" for c in question.clicks if c.words != question.where]
    where = question.where if question.where == BOX else f"*{question.where}*"
    return f"| {question.asks} | {', '.join(steps) or start} | {where} |"


@pytest.mark.parametrize("question", QUESTIONS, ids=[f"{q.history}-{q.asks}" for q in QUESTIONS])
def test_the_answer_is_in_sight_after_the_clicks_that_the_document_says(
    question: Question, look: Callable[..., Any]
) -> None:
    still = {"reduced_motion": "reduce", "script": COUNT}
    page = look(question.history, question.begins, WIDTH, HEIGHT, **still)
    for click in question.clicks:
        near = page.locator("tr", has_text=click.row) if click.row else page
        near.get_by_role("link", name=click.words, exact=True).first.click()
        page.wait_for_load_state()
    shot(page, f"walk-{QUESTIONS.index(question):02d}", whole=False)
    answer = place(page, question)
    assert re.search(question.answer, answer.inner_text(), re.DOTALL), answer.inner_text()
    seen = answer.locator("tr", has_text=question.row).first if question.row else answer
    box = seen.bounding_box()
    assert box is not None
    assert 0 <= box["y"] <= HEIGHT - LINE, f"it begins at {box['y']:.0f} of {HEIGHT}"
    clicks = int(page.evaluate("Number(sessionStorage.clicks || 0)"))
    assert clicks == len(question.clicks)
    assert line(question) in DOC.read_text().splitlines()


def test_the_document_tells_of_no_other_walk() -> None:
    listed = [text for text in DOC.read_text().splitlines() if re.match(r"\| .+\? \|", text)]
    assert len(listed) == len(QUESTIONS)
    assert len(set(listed)) == len(listed)
