"""The plugin's pages as people reach them: from the navigation and from a DAG run."""

import csv
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from opboost_ops.cli.airflow import follow
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.browser import SHOTS, shot

pytestmark = pytest.mark.slow

DAG = "credit_scoring_train"
#: For pictures every one, else each theme and each width.
CONDITIONS = (("light", 1440), ("dark", 390), *((("light", 390), ("dark", 1440)) if SHOTS else ()))
PAGES = {
    "Status": ("status", "Last success"),
    "Privacy ledger": ("ledger", "What each column has cost"),
    "Models": ("models", "Champion"),
    "Exchange": ("exchange", "unbroken"),
    "Data quality": ("quality", "Checks"),
}


@pytest.fixture(scope="module")
def run(airflow: Standalone, client: Client, workspace: Path) -> str:
    """Airflow's id of a finished run."""
    follow(airflow, client, workspace / "federation.yaml", lambda *_: None)
    ended = client.get(f"dags/{DAG}/dagRuns", order_by="-id", state="success")
    return str(ended["dag_runs"][0]["dag_run_id"])


def inside(page: Any) -> Any:
    """The frame in which Airflow shows a plugin's page."""
    frame = page.wait_for_selector("iframe").content_frame()
    frame.wait_for_selector("main")
    return frame


def opened(page: Any, airflow: Standalone, title: str) -> Any:
    """The frame with one of the pages, chosen in the pages' own navigation."""
    page.goto(f"{airflow.url}/plugin/opboost")
    frame = inside(page)
    frame.get_by_role("navigation").get_by_role("link", name=title, exact=True).click()
    frame.wait_for_url(f"**/opboost/{PAGES[title][0]}")
    return inside(page)


def ground(frame: Any) -> str:
    return str(frame.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize("title", PAGES)
def test_from_the_navigation(page: Any, airflow: Standalone, run: str, title: str) -> None:
    name, expected = PAGES[title]
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.goto(airflow.url)
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.reload()
    # One entry for all of them.
    entries = page.get_by_role("link", name="OpBoost", exact=True)
    entries.first.wait_for()
    assert entries.count() == 1
    assert page.get_by_text("Plugins", exact=True).count() == 0
    entries.first.click()
    assert inside(page).url == f"{airflow.url}/opboost/status"
    frame = opened(page, airflow, title)
    assert frame.url == f"{airflow.url}/opboost/{name}"
    assert expected in frame.inner_text("body")
    grounds = set()
    for theme, width in CONDITIONS:
        page.evaluate(f"localStorage.setItem('theme', '{theme}')")
        page.set_viewport_size({"width": width, "height": 1000})
        frame = opened(page, airflow, title)
        shot(page, f"{name}-{width}-{theme}")
        assert expected in frame.inner_text("body")
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            "only tables scroll sideways, each in its own place"
        )
        grounds.add(ground(frame))
    assert len(grounds) == 2, "one ground for each theme"


def test_the_theme_follows_the_switch_of_the_ui(page: Any, airflow: Standalone, run: str) -> None:
    page.evaluate("localStorage.setItem('theme', 'light')")
    frame = opened(page, airflow, "Data quality")
    light = ground(frame)
    # As next-themes does it when somebody chooses in Airflow's menu.
    page.evaluate("localStorage.setItem('theme', 'dark')")
    frame.wait_for_function(
        "before => getComputedStyle(document.body).backgroundColor !== before", arg=light
    )


def test_from_a_run_to_its_report_its_model_and_a_table(
    page: Any, airflow: Standalone, run: str, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.goto(f"{airflow.url}/dags/{DAG}/runs/{run}")
    # The tab, and not the entry of the navigation.
    page.locator("a[href*='/dags/']", has_text="OpBoost").click()
    frame = inside(page)
    frame.wait_for_selector("section#bank")
    shot(page, "run-1440-light")
    page.set_viewport_size({"width": 390, "height": 900})
    shot(page, "run-390-light")
    assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Airflow's grid leaves no more than the frame's edge: there the page opens alone.
    frame.get_by_role("link", name="Open this page alone").click()
    page.wait_for_url(f"{airflow.url}/opboost/run?**")
    shot(page, "run-alone-390-light")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.get_by_role("link", name="Open this page alone").is_visible()
    page.go_back()
    frame = inside(page)
    frame.wait_for_selector("section#bank")
    page.set_viewport_size({"width": 1440, "height": 900})
    text = frame.inner_text("body")
    assert run in text
    assert "Model version" in text
    with page.expect_download() as download:
        frame.locator("section#bank summary", has_text="Exchange").click()
        frame.get_by_role("link", name="Download Artifacts of bank as CSV").click()
    path = tmp_path / "artifacts.csv"
    download.value.save_as(path)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["from"] for line in lines} == {"bank", "credit"}
    frame.get_by_role("link", name="passed").first.click()
    frame.wait_for_selector("text=This check")
    frame.get_by_role("link", name="Models", exact=True).first.click()
    frame.wait_for_selector("text=Decisions")
    frame.locator("dd a", has_text=re.compile("^[0-9a-f]{16}$")).first.click()
    frame.wait_for_selector("text=Metrics on")
    shot(page, "version-1440-light")


def test_a_failed_run_says_why_in_its_own_tab_and_leads_to_its_log(
    page: Any, airflow: Standalone, client: Client
) -> None:
    """The one message was the title of a traceback, cut off at the right."""
    name = client.trigger("broken_train")
    while "federation_file** has failed" not in str(client.run("broken_train", name)["note"]):
        airflow.check()
        time.sleep(0.5)
    log = client.get(
        f"dags/broken_train/dagRuns/{name}/taskInstances/federation_file/logs/1", full_content=True
    )
    assert "domain" in str(log)
    assert "Traceback" not in str(log)
    assert "error_detail" not in str(log)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{airflow.url}/dags/broken_train/runs/{name}")
    # The tab, and not the entry of the navigation.
    page.locator("a[href*='/dags/']", has_text="OpBoost").click()
    frame = inside(page)
    box = frame.wait_for_selector(".note.bad")
    shot(page, "task-failed")
    assert "federation_file has failed." in box.inner_text()
    assert "domain" in box.inner_text()
    frame.get_by_role("link", name="The run in Airflow").click()
    page.wait_for_url(f"{airflow.url}/dags/broken_train/runs/**")
    assert "/opboost" not in page.url


def test_without_a_login_nothing_is_served(airflow: Standalone, run: str) -> None:
    for path in (
        "",
        "ledger",
        "models",
        "exchange",
        "quality",
        "status",
        "status.json",
        f"run?dag={DAG}&run=x",
        "theme.js",
    ):
        reply = httpx.get(f"{airflow.url}/opboost/{path}", trust_env=False)
        assert reply.status_code in (401, 403), path
        assert "credit" not in reply.text
