"""The pages in a real browser in ten states: nothing overlaps, is cut, or keeps anybody out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.federation import FIRST_RUN
from tests.integration.orchestration.pages.airflow_runs import TRAIN
from tests.integration.orchestration.pages.long_history import run_of
from tests.integration.orchestration.pages.served import shot

OVERLAPS = (Path(__file__).parent / "overlaps.js").read_text()
_VERSION = f"models/credit/credit_scoring/{FIRST_RUN}"
_JANUARY = "since=2026-01-01&until=2026-01-31"

#: Name, history, page, width, theme.
STATES = [
    ("no_run_status", "none", "status", 1440, "light"),
    ("one_run_run", "one", f"run?id={FIRST_RUN}", 1440, "light"),
    ("twelve_runs_compare_narrow", "twelve", f"{_VERSION}/beside/{run_of(10)}", 400, "dark"),
    ("twelve_runs_statement_narrow", "twelve", f"ledger?{_JANUARY}", 400, "light"),
    ("sixteen_parties_exchange_narrow", "sixteen", "exchange?party=credit", 400, "dark"),
    ("sixteen_parties_version", "sixteen", _VERSION, 1440, "dark"),
    ("failed_run", "failed", f"run?dag={TRAIN}&run=failed", 1440, "light"),
    ("running_run", "running", f"run?dag={TRAIN}&run=running", 400, "light"),
    ("approval_waits", "waiting", "status", 1440, "dark"),
    ("scored_version_narrow_dark", "scored", _VERSION, 390, "dark"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "history", "path", "width", "theme"),
    [pytest.param(*state, id=state[0]) for state in STATES],
)
def test_nothing_overlaps_is_cut_or_keeps_anybody_out(
    name: str,
    history: str,
    path: str,
    width: int,
    theme: Any,
    look: Callable[..., Any],
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = look(history, path, width, color_scheme=theme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    shot(page, f"state-{name}")
    assert page.evaluate(OVERLAPS) == []
    found = Axe().run(page).response["violations"]
    assert [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ] == []
