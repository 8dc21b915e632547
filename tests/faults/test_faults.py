"""Failure handling: real workers, servers, disks and clocks fail in the middle of runs.

Afterwards a run has succeeded or can be cleared, nothing incomplete was accepted, ledgers have
charged once, and the champion is intact.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
import yaml

from opboost_ops.orchestration.deployment.client import Client
from tests.faults import drill
from tests.faults.gate import Gate
from tests.faults.rig import Rig
from tests.servers.conftest import postgres_server as postgres_server
from tests.unit.exchange.conftest import s3_server as s3_server
from tests.waiting import until

pytestmark = pytest.mark.deployment

#: How often workers are killed, and the seed of the moments.
KILLS = int(os.environ.get("OPBOOST_KILLS", "3"))

OUTAGE = 20


@dataclass
class Faults:
    """A warm rig whose exchange is an S3 server behind a gate."""

    rig: Rig
    drill: drill.Drill
    client: Client

    def begin(self, federation: str, until: str, what: str = "start_date") -> str:
        """Trigger a run, and come back when a task of it has begun, or has ended."""
        run = self.client.trigger(f"{federation}_train")
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            tasks = self.client.tasks(f"{federation}_train", run)
            if any(task["task_id"] == until and task[what] for task in tasks):
                return run
            time.sleep(0.1)
        raise AssertionError(f"{until} has no {what}")

    def all_is_well(self, federation: str, run: str) -> None:
        """The run succeeds, and nothing is wrong afterwards."""
        assert self.drill.ended(federation, run) == "success", self.failures(federation, run)
        assert self.drill.wrong_run(federation, run) == []
        assert self.drill.wrong_state() == []

    def failures(self, federation: str, run: str) -> list[tuple[str, str]]:
        """Why the tasks of a run failed, by the logs of their parties."""
        found = []
        for task in self.client.tasks(f"{federation}_train", run):
            if task["state"] == "failed":
                home = self.rig.home(task["queue"])
                logs = (home / "airflow" / "logs").rglob("*.log")
                own = (log for log in logs if run in str(log) and task["task_id"] in str(log))
                found.append((task["task_id"], "".join(log.read_text()[-3000:] for log in own)))
        return found


@pytest.fixture(scope="module")
def faults(
    s3_server: str,
    postgres_server: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Faults]:
    root = tmp_path_factory.mktemp("rig")
    gate = Gate(int(s3_server.rpartition(":")[2]))
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{gate.port}",
        "AWS_ACCESS_KEY_ID": "key-of-a-test",
        "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
        "AWS_REGION": "us-east-1",
    }
    orders = root / "drill"
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="faults")
        drill.prepare(orders)
        environment |= drill.environment_of(orders)
        rig = Rig(root, postgres_server, "s3://faults/exchange", 3, environment)
        rig.gates["s3"] = gate
        with rig:
            of = drill.Drill(rig, orders, 0)
            of.warm()
            yield Faults(rig, of, rig.client())


def test_workers_that_are_killed_at_random_points(faults: Faults) -> None:
    blows = list(faults.drill.strike(KILLS))
    assert [blow for blow in blows if blow.problems] == []
    assert {blow.whom for blow in blows} == set(drill.VICTIMS)
    # Each died of it, and was tried again.
    assert [blow for blow in blows if blow.tries < 2] == []


def test_a_scheduler_that_is_killed(faults: Faults) -> None:
    run = faults.begin("credit_scoring", "bank_release.desensitize")
    faults.rig.processes.kill("scheduler")
    faults.all_is_well("credit_scoring", run)


@pytest.mark.parametrize("server", ["postgres", "redis", "s3"])
def test_a_server_that_is_away_for_a_while(faults: Faults, server: str) -> None:
    run = faults.begin("credit_scoring", "bank_release.desensitize")
    faults.rig.gates[server].shut()
    time.sleep(OUTAGE)
    faults.rig.gates[server].open()
    faults.all_is_well("credit_scoring", run)


def test_clocks_that_are_ten_minutes_off(faults: Faults) -> None:
    usual = faults.rig.environment["bank"]
    library = faults.rig.root / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source], check=True)
    clocks = {
        party: {"LD_PRELOAD": str(library), "CLOCK_OFF": str(by)}
        for party, by in (("bank", 600), ("shop", -600))
    }
    # So it is, whatever comes of it below.
    for clock in clocks.values():
        now = [sys.executable, "-c", "import time; print(time.time())"]
        printed = subprocess.run(now, env=clock, capture_output=True, text=True, check=True).stdout
        assert abs(float(printed) - time.time() - int(clock["CLOCK_OFF"])) < 60
    try:
        for party, clock in clocks.items():
            faults.rig.restart(party, {**usual, **clock})
        faults.all_is_well("credit_scoring", faults.client.trigger("credit_scoring_train"))
    finally:
        for party in clocks:
            faults.rig.restart(party, usual)


def test_a_worker_that_never_comes_up(faults: Faults) -> None:
    """The run ends in time and says whose worker is absent; nothing of that party is published."""
    name, patience = "credit_scoring_3", 60
    file = faults.rig.federations / f"{name}.yaml"
    declared = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**declared, "schedule": {"timeout_hours": patience / 3600}}))
    path = f"dags/{name}_train"
    until(lambda: faults.client.get(f"{path}/details")["dag_run_timeout"] != "PT12H", "the file")
    with faults.rig.processes.asleep("worker-bank"):
        run = faults.client.trigger(f"{name}_train")
        assert faults.drill.ended(name, run) == "failed"
        note = faults.client.run(f"{name}_train", run)["note"]
        assert "No worker took bank_" in note
        assert "from the queue bank" in note
        assert "queue shop" not in note
    # The worker finds the old order in its queue, and Airflow refuses it.
    tasks = lambda: faults.client.tasks(f"{name}_train", run)  # noqa: E731
    until(lambda: {t["state"] for t in tasks()} <= {"success", "skipped", "failed"}, "the tasks")
    assert {t["state"] for t in tasks() if t["task_id"].startswith("bank_")} == {"skipped"}
