"""Runs of a federation in containers, and what becomes of one whose worker is killed."""

from collections.abc import Callable
from typing import Any

import pytest

from opboost_ops.orchestration.deployment.client import Client
from tests.containers.engine import Project
from tests.waiting import until

TRAIN, SCORE = "credit_scoring_train", "credit_scoring_score"

#: Seconds for a run of some thirty tasks, or for what a task does, on a busy machine.
RUN, TASK = 900, 180


def client_of(port: int, password: str, *more: str) -> Client:
    """A client that is logged in, once the DAGs for training, scoring, and more are unpaused."""
    client = Client(f"http://127.0.0.1:{port}")
    client.http.timeout = 120  # The machine may be a busy one.
    until(lambda: client.login("admin", password), "a login", TASK)
    for dag in (TRAIN, SCORE, *more):
        until(lambda dag=dag: client.has_dag(dag), f"the DAG {dag}", TASK)
        client.http.patch(f"/api/v2/dags/{dag}", json={"is_paused": False}).raise_for_status()
    return client


def state(client: Client, dag: str, run: str, task: str) -> Any:
    """The state of a task of a run."""
    (found,) = [entry for entry in client.tasks(dag, run) if entry["task_id"] == task]
    return found["state"]


def ended(client: Client, dag: str, run: str, told: Callable[[], str]) -> list[dict[str, Any]]:
    """The tasks of a run that has ended right, and within its time."""
    final = ("success", "failed")
    until(lambda: client.run(dag, run)["state"] in final, f"the end of {run}", RUN)
    tasks = client.tasks(dag, run)
    if client.run(dag, run)["state"] != "success":
        wrong = {t["task_id"]: t["state"] for t in tasks if t["state"] not in ("success", None)}
        pytest.fail(f"{dag} has failed: {wrong}\n{told()}")
    return tasks


def train_beside_a_crash(
    client: Client, project: Project, service: str, task: str
) -> list[dict[str, Any]]:
    """Train; kill the container whose worker does a task, as soon as it does. The run's tasks."""
    run = client.trigger(TRAIN)

    def begun() -> bool:
        if client.run(TRAIN, run)["state"] == "failed":
            ended(client, TRAIN, run, project.told)
        return bool(state(client, TRAIN, run, task) == "running")

    until(begun, f"{task} to begin", RUN)
    before = project.state(service)["Restarts"]
    project.kill(service)
    until(lambda: project.is_back(service, before), f"{service} to be started again", TASK)
    tasks = ended(client, TRAIN, run, project.told)
    # On a busy machine the worker may be at its next task by then.
    (struck,) = [entry for entry in tasks if entry["try_number"] > 1]
    assert (struck["try_number"], struck["queue"]) == (2, task.partition("_")[0])
    return tasks


def scored(client: Client, told: Callable[[], str]) -> list[dict[str, Any]]:
    """The tasks of the scoring run that a new champion has started."""

    def begun() -> list[str]:
        runs = client.get(f"dags/{SCORE}/dagRuns")["dag_runs"]
        return [run["dag_run_id"] for run in runs if run["run_type"] == "asset_triggered"]

    return ended(client, SCORE, until(begun, "a scoring run", TASK)[0], told)
