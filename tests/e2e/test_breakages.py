"""What a person reads in a browser when something breaks at night.

One real Airflow for all, whose bank has a small disk of its own: that needs root.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from sqlalchemy import create_engine, text

from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone, members
from tests.browser import logged_in, shot
from tests.integration.orchestration.pages.test_breakages import (
    BREAKAGES,
    DOCS,
    NAME,
    SCORE,
    TRAIN,
    entry,
)
from tests.processes import of_airflow
from tests.waiting import ended, states, until

pytestmark = pytest.mark.slow

#: Every event goes into one file.
_NOTIFIERS = """
from notifiers import LINES
from opboost_ops.orchestration.dags.notifications import EVENTS
TOLD = {event: [LINES] for event in EVENTS}
"""


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("told") / "events.jsonl"


@pytest.fixture(scope="module")
def airflow(
    folder: Path, told: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standalone]:
    home = tmp_path_factory.mktemp("airflow")
    (home / "config").mkdir()
    (home / "config" / "told.py").write_text(_NOTIFIERS)
    (folder / "bank" / "tables" / "score.parquet").unlink()
    sites = {party: folder / party / "site.yaml" for party in ("credit", "shop", "bank")}
    environment = {
        "OPBOOST_NOTIFIERS": "told:TOLD",
        "NOTIFICATIONS_FILE": str(told),
        "PYTHONPATH": os.pathsep.join((str(DOCS / "examples"), os.environ.get("PYTHONPATH", ""))),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "1",
    }
    with (
        small_disk(folder / "bank" / "home"),
        Standalone(home, folder, sites, environment=environment) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def client(airflow: Standalone) -> Client:
    client = airflow.client()
    until(lambda: client.has_dag(TRAIN) and client.has_dag(SCORE), "the DAGs")
    return client


@pytest.fixture(scope="module")
def trained(client: Client) -> None:
    """A training that has succeeded, whichever test has run before."""
    runs = client.get(f"dags/{TRAIN}/dagRuns")["dag_runs"]
    if all(run["state"] != "success" for run in runs):
        assert ended(client, TRAIN, client.trigger(TRAIN)) == "success"


@pytest.fixture(scope="module")
def page(airflow: Standalone, client: Client) -> Iterator[Any]:
    with logged_in(airflow) as page:
        yield page


def events(told: Path) -> set[str]:
    lines = told.read_text().splitlines() if told.exists() else []
    return {json.loads(line)["event"] for line in lines}


def says(page: Any, airflow: Standalone, told: Path, breakage: str, dag: str, run: str) -> None:
    """Each page says what the breakage expects, and its notifications are sent."""
    expected = BREAKAGES[breakage]
    ways = {
        "status": expected.status,
        f"run?dag={dag}&run={quote(run)}": expected.run,
    }
    for path, cell in ways.items():
        page.goto(f"{airflow.url}/opboost/{path}")
        name = f"{breakage}-{path.partition('?')[0]}".replace("`", "").replace(" ", "-")
        found = re.sub(r"\s+", " ", shot(page, name))
        assert re.search(pattern(cell), found, re.IGNORECASE), (cell, found)
    page.goto(f"{airflow.url}/opboost/status.json")
    (one,) = json.loads(page.inner_text("body"))["federations"]
    one["parties"] = {party["party"]: party for party in one["parties"]}
    path, _, value = expected.document.partition(": ")
    there = str(entry(one, path))
    assert there if value == "..." else re.fullmatch(pattern(value), there), (path, there)
    called = {name for name in expected.alarms if name.islower()}
    until(lambda: called <= events(told), f"{called} in {told}", 20)


def pattern(cell: str) -> str:
    """Of a cell's words, with other numbers, another person, and whichever party noticed first."""
    words = re.escape(cell).replace(re.escape("store of bank"), r"store of \w+")
    return re.sub(r"\d+", r"\\d+", words).replace("ann", r"\w+")


def test_a_disk_is_full_and_then_freed(
    page: Any, airflow: Standalone, client: Client, folder: Path, told: Path
) -> None:
    filler = folder / "bank" / "home" / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    run = client.trigger(TRAIN)
    assert ended(client, TRAIN, run) == "failed"
    says(page, airflow, told, "A disk is full", TRAIN, run)
    filler.unlink()
    asked = {"dry_run": False, "only_failed": True, "dag_run_id": run}
    client.http.post(f"/api/v2/dags/{TRAIN}/clearTaskInstances", json=asked).raise_for_status()
    assert ended(client, TRAIN, run) == "success"


def test_the_table_of_new_rows_is_missing(
    page: Any, airflow: Standalone, client: Client, trained: None, told: Path
) -> None:
    """The new champion has started the run."""
    found = until(lambda: client.get(f"dags/{SCORE}/dagRuns")["dag_runs"], "a run of scoring")
    run = found[0]["dag_run_id"]
    assert ended(client, SCORE, run) == "failed"
    says(page, airflow, told, "The table of new rows is missing", SCORE, run)


def test_the_file_is_broken(
    page: Any, airflow: Standalone, client: Client, folder: Path, told: Path
) -> None:
    file = folder / "federation.yaml"
    good = file.read_text()
    file.write_text(yaml.safe_dump({**yaml.safe_load(good), "trees": 3}))
    until(lambda: "invalid" in tags(client), "the DAG of a broken file")
    says(page, airflow, told, "`federation.yaml` is broken", TRAIN, "none")
    file.write_text(good)
    until(lambda: "invalid" not in tags(client), "the DAG of a good file")


def tags(client: Client) -> set[str]:
    return {tag["name"] for tag in client.get(f"dags/{TRAIN}")["tags"]}


def test_the_store_is_away(
    page: Any, airflow: Standalone, client: Client, folder: Path, told: Path
) -> None:
    store, away = folder / "exchange", folder / "away"
    store.rename(away)
    store.mkdir()
    run = client.trigger(TRAIN)
    assert ended(client, TRAIN, run) == "failed"
    says(page, airflow, told, "The store is away", TRAIN, run)
    assert not list(store.rglob("manifest.json"))
    store.rmdir()
    away.rename(store)


def test_a_party_stops_in_the_middle_of_a_run(
    page: Any, airflow: Standalone, client: Client, told: Path
) -> None:
    run = client.trigger(TRAIN)
    until(lambda: "success" in states(client, TRAIN, run).values(), "a task that has ended")
    act(client, "stop")
    assert ended(client, TRAIN, run) == "failed"
    says(page, airflow, told, "A party stops in the middle of a run", TRAIN, run)
    act(client, "resume")


def act(client: Client, what: str) -> None:
    form = {"party": "bank", "act": what, "reason": "privacy"}
    assert ended(client, f"{NAME}_admin", client.trigger(f"{NAME}_admin", form)) == "success"


def test_a_person_marks_a_run_as_failed(
    page: Any, airflow: Standalone, client: Client, trained: None, told: Path
) -> None:
    run = client.trigger(TRAIN)
    until(lambda: "success" in states(client, TRAIN, run).values(), "a task that has ended")

    def marked() -> bool:
        state = {"state": "failed"}
        client.http.patch(f"/api/v2/dags/{TRAIN}/dagRuns/{run}", json=state).raise_for_status()
        # SQLite locks no rows: a scheduler that is deciding on the run may overwrite it.
        time.sleep(2)
        return bool(client.run(TRAIN, run)["state"] == "failed")

    until(marked, "a mark that stays", 60)
    says(page, airflow, told, "A person marked the run as failed", TRAIN, run)
    # Its queued tasks were waiting for no worker.
    assert client.run(TRAIN, run)["note"] is None


def test_the_scheduler_was_killed_and_a_late_run_tells_people(
    page: Any, airflow: Standalone, client: Client, trained: None, told: Path
) -> None:
    """The run before it is the one by which it is late."""
    run = client.trigger(TRAIN)
    until(lambda: "running" in states(client, TRAIN, run).values(), "a task that runs")
    (scheduler,) = [pid for pid in of_airflow(airflow.home, "scheduler") if os.getsid(pid) == pid]
    for process in members([scheduler]):
        os.kill(process, signal.SIGKILL)
    time.sleep(1)
    says(page, airflow, told, "The scheduler was killed", TRAIN, run)
    # Nobody waits a quarter of an hour here: what was to be done by then was to be done before.
    with create_engine(f"sqlite:///{airflow.home / 'airflow.db'}").begin() as database:
        past = str((datetime.now(UTC) - timedelta(hours=1)).replace(tzinfo=None))
        moved = database.execute(
            text("update deadline set deadline_time = :past where not missed"), {"past": past}
        )
        assert moved.rowcount >= 1
    parts = (("scheduler", "--skip-serve-logs"), ("triggerer", "--skip-serve-logs"))
    again = [
        subprocess.Popen(
            [sys.executable, "-m", "airflow", *part],
            env=airflow.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for part in parts
    ]
    try:
        until(lambda: "run_late" in events(told), "word of a late run")
    finally:
        for process in members([one.pid for one in again]):
            os.kill(process, signal.SIGKILL)
        for one in again:
            one.wait()
    (line,) = [line for line in told.read_text().splitlines() if "run_late" in line]
    assert json.loads(line)["message"].startswith(TRAIN)
