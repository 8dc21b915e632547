"""Three parties, each a unix user with a worker of its own, in one real Airflow."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from opboost_ops.cli import app
from opboost_ops.exchange.run_id import run_id
from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.parties import servers
from opboost_ops.orchestration.parties.environments import CONCURRENCY
from opboost_ops.orchestration.parties.records import read_secrets, read_state
from opboost_ops.orchestration.parties.topology import Topology
from tests.parties.conftest import AT_ONCE, NAME, PATIENCE, absent
from tests.waiting import until

pytestmark = pytest.mark.deployment

PARTIES = {"credit", "shop", "bank"}


def test_three_parties_train_and_score(topology: Topology, client: Client) -> None:
    """A new champion starts a scoring run; every task runs as its party."""
    dags = (f"{NAME}_score", f"{NAME}_train")
    until(lambda: all(map(client.has_dag, dags)), "both DAGs")
    ended(topology, client, f"{NAME}_train", client.trigger(f"{NAME}_train"))
    runs: list[dict[str, Any]] = []

    def scored() -> bool:
        runs[:] = client.get(f"dags/{NAME}_score/dagRuns")["dag_runs"]
        return bool(runs)

    until(scored, "a run of scoring")
    ended(topology, client, f"{NAME}_score", runs[0]["dag_run_id"])
    scores = list((topology.places.home("credit") / "scores").rglob("*.parquet"))
    assert scores
    assert {path.stat().st_uid for path in scores} == {topology.account("credit").uid}


def test_what_is_another_s_is_refused(topology: Topology, client: Client) -> None:
    """Every attempt is made really, and the same attempt on one's own things succeeds."""
    options = ["--folder", str(topology.places.root), "--prefix", topology.prefix]
    done = CliRunner().invoke(app, ["parties", "refusals", *options, "--json"])
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    outcomes = Counter((a["party"] == a["other"], a["outcome"]) for a in found)
    # Nothing absent: a thing that is not there proves nothing.
    assert set(outcomes) == {(True, "allowed"), (False, "refused")}, found
    pairs = Counter((a["party"], a["other"]) for a in found)
    assert set(pairs) == {(a, b) for a in PARTIES for b in {*PARTIES, "coordinator"}}
    assert all(count >= 15 for count in pairs.values())

    # The same forged token is good where the coordinator's secret is: so the refusal means it.
    python = str(topology.commands / "python")
    forge = "from opboost_ops.orchestration.parties.attempts import forged; print(forged({!r}))"
    printed = topology.call("scheduler", python, "-c", forge.format(topology.url))
    assert printed.split()[-1] == "200"


def test_a_worker_knows_no_secret_but_its_own(topology: Topology) -> None:
    """Neither in its environment, nor in a command line, which every user may read."""
    secrets = read_secrets(topology.places, topology.parties)
    shared = {secrets.broker, secrets.database, secrets.tokens, secrets.pages, secrets.fernet}
    shared.add(secrets.admin)
    for party in topology.parties:
        others = {word for name, word in secrets.redis.items() if name != party}
        # Celery's own processes write their titles over theirs.
        leader = topology.components[f"worker-{party}"]
        environment = Path(f"/proc/{leader}/environ").read_text()
        assert secrets.redis[party] in environment
        assert not [word for word in shared | others if word in environment]
    lines = commands()
    assert lines
    every = shared | set(secrets.redis.values())
    assert not [line for line in lines if any(word in line for word in every)]


def test_a_worker_that_never_comes_up(topology: Topology, client: Client) -> None:
    """The run ends in time and says whose worker is absent; nothing of that party is published."""
    dag = f"{absent()}_train"
    until(lambda: client.has_dag(dag), f"the DAG {dag}")
    # As the file says since the topology is up, no longer as it was made.
    until(
        lambda: client.get(f"dags/{dag}/details")["dag_run_timeout"] != "PT12H",
        "the file to be read again",
    )
    topology.stop("worker-bank")
    begin = time.monotonic()
    run = client.trigger(dag)
    try:
        state = until(lambda: final(client, dag, run), f"the end of {run}", PATIENCE + 300)
        assert state == "failed"
        assert time.monotonic() - begin >= PATIENCE
        note = client.run(dag, run)["note"]
        assert "No worker took bank_" in note
        assert "from the queue bank" in note
        assert "queue shop" not in note
        assert "queue credit" not in note
    finally:
        topology.start("worker-bank")

    # The worker finds the old order in its queue, and Airflow refuses it.
    until(lambda: broker(topology, "LLEN", "bank") == "0", "an empty queue of bank")
    until(lambda: broker(topology, "HLEN", "bank.unacked") == "0", "bank's last orders")
    states = {task["task_id"]: task["state"] for task in client.tasks(dag, run)}
    assert not [task for task, state in states.items() if state in ("queued", "running", None)]
    assert {states[task] for task in states if task.startswith("bank_")} == {"skipped"}
    place = topology.places.exchange / absent() / run_id(dag, run)
    assert place.is_dir()
    assert not list(place.glob("*/bank"))
    assert not unfinished(topology)


def test_many_federations_at_once(topology: Topology, client: Client) -> None:
    """All end right, on three workers, and each worker has its own queue's tasks alone."""
    names = [NAME, *(f"{NAME}_{n}" for n in range(2, AT_ONCE + 1))]
    for name in names:
        until(lambda name=name: client.has_dag(f"{name}_train"), name)  # type: ignore[misc]
        # A champion would start a scoring run.
        client.http.patch(f"/api/v2/dags/{name}_score", json={"is_paused": True}).raise_for_status()
    runs = {name: client.trigger(f"{name}_train") for name in names}
    tasks = [
        task for name, run in runs.items() for task in ended(topology, client, f"{name}_train", run)
    ]
    for queue in PARTIES:
        own = [task for task in tasks if task["queue"] == queue]
        assert len(own) % AT_ONCE == 0
        assert 1 < most_at_once(own) <= CONCURRENCY
    for name, run in runs.items():
        place = topology.places.exchange / name / run_id(f"{name}_train", run)
        for party in ("shop", "bank"):
            (artifact,) = place.glob(f"ranks/{party}")
            assert artifact.stat().st_uid == topology.account(party).uid
    assert not unfinished(topology)
    state, secrets = read_state(topology.places), read_secrets(topology.places, topology.parties)
    assert state is not None
    for queue in PARTIES:
        assert servers.ask_broker(state, secrets, "LLEN", queue).strip() == "0"


def ended(topology: Topology, client: Client, dag: str, run: str) -> list[dict[str, Any]]:
    """The tasks of a run that has ended right, all of them on the worker of their party."""
    state = until(lambda: final(client, dag, run), f"the end of {run}", 240 + 120 * AT_ONCE)
    tasks = client.tasks(dag, run)
    wrong = [
        (task["task_id"], client.error(dag, run, task["task_id"], task["try_number"]))
        for task in tasks
        if task["state"] == "failed"
    ]
    assert state == "success", (dag, wrong)
    for task in tasks:
        assert task["task_id"].startswith(f"{task['queue']}_")
        assert task["unixname"] == topology.account(task["queue"]).name
    assert {task["queue"] for task in tasks} == PARTIES
    return tasks


def final(client: Client, dag: str, run: str) -> str:
    state: str = client.run(dag, run)["state"]
    return state if state in ("success", "failed") else ""


def most_at_once(tasks: Iterable[dict[str, Any]]) -> int:
    """How many tasks ran at the same moment at most."""
    moments = [(datetime.fromisoformat(task["start_date"]), 1) for task in tasks]
    moments += [(datetime.fromisoformat(task["end_date"]), -1) for task in tasks]
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


def broker(topology: Topology, *command: str) -> str:
    state, secrets = read_state(topology.places), read_secrets(topology.places, topology.parties)
    assert state is not None
    return servers.ask_broker(state, secrets, *command).strip()


def unfinished(topology: Topology) -> list[Path]:
    return list(topology.places.exchange.rglob(".part-*"))


def commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_text(errors="replace"))
    return found
