"""The UI as people see it: graph, grid and trigger form, in a headless Chromium."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.cli.demo import follow
from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.standalone import Standalone

pytestmark = pytest.mark.slow

DAG = "credit_scoring_train"
#: Where screenshots stay, for people to look at.
SHOTS = os.environ.get("OPBOOST_SCREENSHOTS")


@pytest.fixture(scope="module")
def page(airflow: Standalone, client: Client) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on PATH")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(f"page: {error}"))
        page.on("response", lambda r: page.problems.append(r.url) if r.status >= 400 else None)
        page.foreign = set()
        page.on("request", lambda r: page.foreign.add(r.url) if foreign(r.url) else None)
        user, password = next(iter(json.loads(airflow.passwords.read_text()).items()))
        page.goto(f"{airflow.url}/auth/login")
        page.fill("input[name=username]", user)
        page.fill("input[name=password]", password)
        page.click("button[type=submit]")
        page.wait_for_url(f"{airflow.url}/**")
        page.wait_for_load_state("networkidle")
        page.problems.clear()
        yield page
        browser.close()


def foreign(url: str) -> bool:
    return url.startswith(("http", "ws")) and "//127.0.0.1:" not in url


def shot(page: Any, name: str) -> str:
    page.wait_for_timeout(1500)
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))
    text = str(page.inner_text("body"))
    assert page.problems == []
    assert page.foreign == set()
    for broken in ("undefined", "[object Object]", "NaN", "500 Internal", "Something went wrong"):
        assert broken not in text
    return text


def test_graph_and_grid_of_a_finished_run(
    page: Any, airflow: Standalone, client: Client, workspace: Path
) -> None:
    follow(airflow, client, workspace / "federation.yaml", lambda *_: None)
    run = client.get(f"dags/{DAG}/dagRuns", order_by="-id")["dag_runs"][0]["dag_run_id"]
    page.goto(f"{airflow.url}/dags/{DAG}")
    text = shot(page, "dag")
    assert DAG in text
    page.goto(f"{airflow.url}/dags/{DAG}/runs/{run}")
    text = shot(page, "run-grid")
    for label in ("credit: opens the run", "bank: protected release", "credit: model"):
        assert label in text
    page.get_by_role("button", name="Show Graph").click()
    shot(page, "run-graph")
    nodes = page.locator(".react-flow__node")
    assert nodes.count() == 10
    page.get_by_role("button", name="Expand all task groups").click()
    page.wait_for_timeout(2500)
    assert nodes.count() >= 10 + 29
    text = shot(page, "run-graph-open")
    for label in ("shop: identifiers", "bank: split values", "credit: training"):
        assert label in text


def test_the_trigger_form(page: Any, airflow: Standalone) -> None:
    page.goto(f"{airflow.url}/dags/{DAG}")
    page.get_by_role("button", name="Trigger").first.click()
    text = shot(page, "form")
    for label in ("Epsilon of all protected features", "Trees", "Learning rate", "Depth of a tree"):
        assert label in text
    assert "Empty: as declared (20)" in text


def test_the_invalid_dag_and_the_list(page: Any, airflow: Standalone) -> None:
    page.goto(f"{airflow.url}/dags")
    text = shot(page, "dags")
    assert "invalid" in text
    assert "Dag Import Error" not in text
    page.goto(f"{airflow.url}/dags/broken_train")
    shot(page, "broken")
