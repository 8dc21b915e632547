"""Waiting for what another process does: with a patience of its own, and words for what."""

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

from opboost_ops.orchestration.deployment.client import Client

T = TypeVar("T")


def until(found: Callable[[], T], what: str, patience: float = 300) -> T:
    """What is found at last.

    Args:
        found: Looks; a server that does not answer yet is asked again.
        what: What is waited for, for anyone who reads that it did not come.
        patience: Seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(httpx.TransportError):
            if value := found():
                return value
        assert time.monotonic() < deadline, f"waited {patience:.0f} s for {what}"
        time.sleep(0.3)


def ended(client: Client, dag: str, run: str, patience: float = 300) -> str:
    """The state in which a run of Airflow's has ended, which may be yet to begin."""

    def state() -> str:
        runs = client.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]
        (found,) = [one["state"] for one in runs if one["dag_run_id"] == run] or [""]
        return str(found) if found in ("success", "failed") else ""

    return until(state, f"the end of {run} of {dag}", patience)


def states(client: Client, dag: str, run: str) -> dict[str, str]:
    """States of a run's tasks, by task."""
    return {task["task_id"]: str(task["state"]) for task in client.tasks(dag, run)}


def errors(client: Client, dag: str, run: str) -> dict[str, str]:
    """Messages of a run's failed tasks, by task."""
    return {
        task["task_id"]: client.error(dag, run, task["task_id"], task["try_number"])
        for task in client.tasks(dag, run)
        if task["state"] == "failed"
    }
