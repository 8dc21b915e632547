"""The pages in a real browser in 29 states: nothing overlaps, is cut, or keeps anybody out."""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from opboost_ops.config.loading import site_of
from opboost_ops.errors import BudgetError
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.run_id import run_id
from opboost_ops.run.inbox import Run, note_refused
from tests.federation import FIRST_RUN, SCORING_RUN, SECOND_RUN, Workspace
from tests.unit.pages.airflow_runs import TRAIN, forget_runs, write_run
from tests.unit.pages.long_history import lengthen, run_of
from tests.unit.pages.many_parties import many_parties
from tests.unit.stages.decoy_federation import workspace as with_decoys

pytestmark = pytest.mark.slow

#: Where pictures stay, for people to look at.
SHOTS = os.environ.get("OPBOOST_SCREENSHOTS")
OVERLAPS = (Path(__file__).parent / "overlaps.js").read_text()
_VERSION = f"models/credit/credit_scoring/{FIRST_RUN}"
_JANUARY = "since=2026-01-01&until=2026-01-31"

#: Name, history, page, width, theme.
STATES = [
    ("no_run_status", "none", "status", 1440, "light"),
    ("no_run_ledger", "none", "ledger", 400, "dark"),
    ("no_run_models", "none", "models", 1440, "light"),
    ("one_run_ledger", "one", "ledger", 1440, "light"),
    ("one_run_version", "one", _VERSION, 400, "light"),
    ("one_run_exchange", "one", "exchange", 1440, "dark"),
    ("one_run_run", "one", f"run?id={FIRST_RUN}", 1440, "light"),
    ("twelve_runs_models", "twelve", "models", 1440, "light"),
    ("twelve_runs_compare", "twelve", f"{_VERSION}/beside/{run_of(10)}", 1440, "light"),
    ("twelve_runs_compare_narrow", "twelve", f"{_VERSION}/beside/{run_of(10)}", 400, "dark"),
    ("twelve_runs_month", "twelve", f"monthly?{_JANUARY}", 1440, "light"),
    ("twelve_runs_month_narrow", "twelve", f"monthly?{_JANUARY}", 400, "light"),
    ("twelve_runs_statement", "twelve", f"statement?{_JANUARY}", 400, "light"),
    ("two_hundred_runs_models", "two_hundred", "models", 1440, "dark"),
    ("two_hundred_runs_ledger", "two_hundred", "ledger", 1440, "light"),
    ("two_hundred_runs_quality", "two_hundred", "quality", 400, "light"),
    ("two_parties_exchange", "two", "exchange", 400, "dark"),
    ("sixteen_parties_exchange", "sixteen", "exchange?party=credit", 1440, "light"),
    ("sixteen_parties_exchange_narrow", "sixteen", "exchange?party=credit", 400, "dark"),
    ("sixteen_parties_version", "sixteen", _VERSION, 1440, "dark"),
    ("failed_run", "failed", f"run?dag={TRAIN}&run=failed", 1440, "light"),
    ("refused_ledger", "refused", "ledger?party=bank", 400, "dark"),
    ("running_run", "running", f"run?dag={TRAIN}&run=running", 400, "light"),
    ("approval_waits", "waiting", "status", 1440, "dark"),
    ("decoys_exchange", "decoys", "exchange", 1440, "light"),
    ("decoys_run", "decoys", f"run?id={FIRST_RUN}", 400, "dark"),
    ("scored_run", "scored", f"run?id={SCORING_RUN}", 1440, "light"),
    ("scored_run_narrow", "scored", f"run?id={SCORING_RUN}", 400, "dark"),
    ("scored_version", "scored", _VERSION, 1440, "light"),
]


def test_there_are_24_states_at_least() -> None:
    assert len({name for name, *_ in STATES}) == len(STATES) >= 24


@pytest.fixture(scope="module")
def histories(
    trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Workspace]:
    made: dict[str, Workspace] = {}
    folder = tmp_path_factory.mktemp("states")

    def trained(name: str, parties: int) -> Workspace:
        new = Workspace.write(folder / name, many_parties(parties))
        with pytest.MonkeyPatch.context() as patch:
            new.known_to(patch)
            new.all()
        return new

    def make(name: str) -> Workspace:
        if name == "none":
            return Workspace.write(folder / name)
        if name in ("two", "sixteen"):
            return trained(name, {"two": 2, "sixteen": 16}[name])
        if name == "decoys":
            new = with_decoys(folder / name)
            with pytest.MonkeyPatch.context() as patch:
                new.known_to(patch)
                new.all()
            return new
        copy = trained_once.copy(folder / name, SECOND_RUN)
        if name == "scored":
            with pytest.MonkeyPatch.context() as patch:
                copy.known_to(patch)
                copy.scoring().all()
        if nights := {"twelve": 12, "two_hundred": 200}.get(name):
            lengthen(copy, nights)
        return copy

    def get(name: str) -> Workspace:
        if name not in made:
            made[name] = make(name)
        return made[name]

    return get


def in_airflow(state: str) -> None:
    """What Airflow's own database says in a state."""
    forget_runs()
    good = {"credit_open.open_run": "success"}
    if state == "failed":
        problem = "The table of bank does not keep its schema: " + "income is out of bounds. " * 9
        told = {"problem": problem, "remedy": "Mend the table, then start a new run."}
        tasks = {**good, "bank_ids.check_table": "failed", "credit_train.train": "upstream_failed"}
        write_run("failed", "failed", tasks, {"bank_ids.check_table": told})
    elif state == "running":
        write_run("running", "running", {**good, "bank_release.desensitize": "queued"})
    elif state == "waiting":
        tasks = {**good, "bank_release.desensitize": "up_for_reschedule"}
        write_run("waiting", "running", tasks, ago=timedelta(hours=7))
        run = run_id(TRAIN, "waiting")
        with open_books(site_of("bank")[0]) as books:
            reason = "it is the first release of credit_scoring to credit"
            books.audit.add("asked", f"credit_scoring/{run}/approval", "bank", "0" * 64, reason)
    elif state == "refused":
        run = Run("credit_scoring", SECOND_RUN, "credit")
        note_refused(site_of("bank")[0], run, "desensitize", BudgetError("No budget is left."))


@pytest.fixture(scope="module")
def url(application: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(application, "127.0.0.1", 0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on PATH")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()


@pytest.mark.parametrize(
    ("name", "history", "path", "width", "theme"), STATES, ids=[s[0] for s in STATES]
)
def test_nothing_overlaps_is_cut_or_keeps_anybody_out(
    name: str,
    history: str,
    path: str,
    width: int,
    theme: Any,
    histories: Callable[[str], Workspace],
    url: str,
    browser: Any,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    histories(history).known_to(monkeypatch)
    in_airflow(history)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    try:
        context.add_cookies([{"name": "_token", "value": token, "url": url}])
        page = context.new_page()
        reply = page.goto(f"{url}/opboost/{path}")
        assert reply.status == 200
        page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            for frame in page.query_selector_all("iframe"):
                # A browser paints what is in a frame once somebody could see it.
                frame.scroll_into_view_if_needed()
                page.wait_for_timeout(500)
            page.screenshot(path=str(Path(SHOTS) / f"state-{name}.png"), full_page=True)
        assert page.evaluate(OVERLAPS) == []
        # A version's card is a page of its own, in a frame.
        found = Axe().run(page, context={"exclude": [["iframe"]]}).response["violations"]
        assert [
            (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ] == []
    finally:
        context.close()
        forget_runs()
