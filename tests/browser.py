"""A headless Chromium that is logged in to an Airflow, and what it must not meet there."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.orchestration.deployment.standalone import Standalone

#: Where screenshots stay, for people to look at.
SHOTS = os.environ.get("OPBOOST_SCREENSHOTS")


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium; where there is none, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on PATH")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield opened
        opened.close()


@contextmanager
def logged_in(airflow: Standalone) -> Iterator[Any]:
    """A page of a browser that is logged in as the administrator."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(f"page: {error}"))
        page.on("response", lambda r: page.problems.append(r.url) if r.status >= 400 else None)
        page.foreign = set()
        page.on("request", lambda r: page.foreign.add(r.url) if foreign(r.url) else None)
        log_in(page, airflow, "admin")
        page.problems.clear()
        yield page


def log_in(page: Any, airflow: Standalone, user: str) -> None:
    """Log in by Airflow's own form, as one of its users."""
    password = json.loads(airflow.passwords.read_text())[user]
    page.goto(f"{airflow.url}/auth/login")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    # The page of the login matches "anything of this host" as well, and leaves by itself: who goes
    # on before it has left has a navigation of their own cut off.
    page.wait_for_url(lambda url: "/auth/login" not in url)
    page.wait_for_load_state("networkidle")


def foreign(url: str) -> bool:
    """Whether an address is of another host."""
    return url.startswith(("http", "ws")) and "//127.0.0.1:" not in url


def shot(page: Any, name: str) -> str:
    """Look at a page: keep a picture where one is wanted, and give its text."""
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
