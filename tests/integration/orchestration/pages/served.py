"""The pages over named histories, served by the real application to a real browser."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from opboost_ops.config.loading import site_of
from opboost_ops.exchange.manifest import run_id
from opboost_ops.exchange.party_state import open_state
from tests.browser import SHOTS, chromium
from tests.federation import SECOND_RUN, Workspace
from tests.integration.orchestration.pages.airflow_runs import (
    TRAIN,
    forget_runs,
    tell_trees,
    write_run,
)
from tests.integration.orchestration.pages.long_history import lengthen
from tests.integration.orchestration.pages.many_parties import many_parties
from tests.integration.orchestration.pages.production import in_production


@pytest.fixture(scope="module")
def histories(
    trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Workspace]:
    made: dict[str, Workspace] = {}
    folder = tmp_path_factory.mktemp("states")

    def make(name: str) -> Workspace:
        if name == "none":
            return Workspace.write(folder / name)
        if name == "sixteen":
            new = Workspace.write(folder / name, many_parties(16))
            with new.known():
                new.all()
            return new
        copy = trained_once.copy(folder / name, SECOND_RUN)
        if name == "scored":
            with copy.known():
                copy.scoring().all()
                in_production(copy)
        if name == "twelve":
            lengthen(copy, 12)
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
        told = {"problem": problem, "remedy": "Fix the table, then start a new run."}
        tasks = {
            **good,
            "bank_release.check_table": "failed",
            "credit_train.train": "upstream_failed",
        }
        write_run("failed", "failed", tasks, {"bank_release.check_table": told})
    elif state == "running":
        busy = {"bank_release.desensitize": "queued", "credit_train.train": "running"}
        write_run("running", "running", {**good, **busy})
        tell_trees(site_of("credit")[0].home, run_id(TRAIN, "running"), datetime.now(UTC))
    elif state == "waiting":
        tasks = {**good, "bank_release.desensitize": "up_for_reschedule"}
        write_run("waiting", "running", tasks, ago=timedelta(hours=7))
        run = run_id(TRAIN, "waiting")
        with open_state(site_of("bank")[0]) as state:
            reason = "it is the first release of credit_scoring to credit"
            state.audit.add("asked", f"credit_scoring/{run}/approval", "bank", "0" * 64, reason)


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
    with chromium() as opened:
        yield opened


@pytest.fixture
def look(
    histories: Callable[[str], Workspace],
    url: str,
    browser: Any,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Any]]:
    """Opens a page over a history, in a browser that is logged in.

    Takes the history's name, the page's path, the width of the window, and options of a browser's
    context.
    """
    with ExitStack() as stack:

        def open_page(
            history: str, path: str, width: int, height: int = 900, script: str = "", **options: Any
        ) -> Any:
            histories(history).known_to(monkeypatch)
            in_airflow(history)
            stack.callback(forget_runs)
            context = browser.new_context(viewport={"width": width, "height": height}, **options)
            stack.callback(context.close)
            context.add_cookies([{"name": "_token", "value": token, "url": url}])
            context.add_init_script(script)
            page = context.new_page()
            assert page.goto(f"{url}/opboost/{path}").status == 200
            return page

        yield open_page


def shot(page: Any, name: str, *, whole: bool = True) -> None:
    """Keep a picture of a page where somebody wants to look at it."""
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=whole)
