"""A party waits in its own Airflow, in its own triggerer: hardly a task is started meanwhile."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from opboost_ops.exchange.manifest import JOINED
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.opening import open_run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.processes import of_airflow
from tests.waiting import until

pytestmark = pytest.mark.slow

NAME = "credit_scoring"
TRAIN, JOIN = f"{NAME}_train", f"{NAME}_join"
WAIT = "bank_psi.wait_for_psi_query"
RUN = "a" * 16


@pytest.fixture(scope="module")
def airflow(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    home = tmp_path_factory.mktemp("airflow")
    sites = {"bank": folder / "bank" / "site.yaml"}
    parts = ("scheduler", "api-server", "dag-processor", "triggerer")
    with Standalone(home, folder, sites, parts, parties=("bank",)) as running:
        yield running


def starts(client: Client, dag: str, run: str, task: str) -> int:
    """How often a task's process was started, by its log."""
    path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/1"
    lines = client.get(path, full_content=True)["content"]
    return sum("DAG bundles loaded" in str(line) for line in lines)


def state(client: Client, dag: str, run: str, task: str) -> str | None:
    """A task's state; None while there is no such run."""
    try:
        return next((t["state"] for t in client.tasks(dag, run) if t["task_id"] == task), None)
    except httpx.HTTPStatusError:
        return None


def test_a_wait_survives_its_triggerer_and_starts_hardly_a_task(
    airflow: Standalone, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = airflow.client()
    until(lambda: client.has_dag(JOIN), f"the DAG {JOIN}")
    looks = until(lambda: client.get(f"dags/{JOIN}/dagRuns")["dag_runs"], "a run of the join DAG")
    first = looks[0]["dag_run_id"]
    until(lambda: state(client, JOIN, first, "look_for_runs") == "deferred", "a deferred look")

    for party in ("credit", "shop"):
        monkeypatch.setenv(f"OPBOOST_SITE_{party.upper()}", str(folder / party / "site.yaml"))
    open_run(folder / "federation.yaml", RUN, {}, "train")
    joined = f"{JOINED}{RUN}"
    until(lambda: state(client, TRAIN, joined, WAIT) == "deferred", "a deferred wait", 300)

    # The triggerer dies, and another takes its place.
    for process in of_airflow(airflow.home, "triggerer"):
        os.kill(process, signal.SIGKILL)
    command = [sys.executable, "-m", "airflow", "triggerer", "--queues", "default"]
    with subprocess.Popen(
        command, env=airflow.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as again:
        try:
            time.sleep(10)
            assert state(client, TRAIN, joined, WAIT) == "deferred"
            run = Run(NAME, RUN, "credit")
            for stage in ("check_table", "check_drift", "digest_ids", "psi_query"):
                run_stage("credit", stage, run)
            until(
                lambda: state(client, TRAIN, joined, "bank_psi.psi_answer") == "success",
                "an answer of the party",
                300,
            )
        finally:
            again.terminate()
    assert starts(client, TRAIN, joined, WAIT) == 2
    assert starts(client, JOIN, first, "look_for_runs") == 2
    links = client.get(f"dags/{TRAIN}/dagRuns/{joined}/taskInstances/{WAIT}/links")["extra_links"]
    assert set(links) == {"Run", "Ledger"}
    for link in links.values():
        assert client.http.get(link).status_code == 200, link
