"""Metrics through Airflow's statsd or OpenTelemetry; they contain public facts only.

A worker sends metrics where its `[metrics]` section says, and only if its environment sets
``OPBOOST_METRICS=on``: by default a party discloses nothing about its budgets to a collector that
it may share with others.
"""

import importlib
import logging
import os
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from airflow.listeners import hookimpl

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.run_notes import by_hand
from opboost_ops.orchestration.pages.airflow import TAG

VARIABLE = "OPBOOST_METRICS"

#: Outcomes of a task.
Outcome = Literal["done", "skipped", "refused", "failed", "again"]

#: Duration of a stage's last task in whole seconds, which its page shows to everyone.
SECONDS = "stage_seconds"

STAGES = "stages_total"
RUNS = "runs_total"

#: Time of a DAG's last successful run, in seconds since 1970.
SUCCESS = "last_success"

REFUSED = "refused_artifacts_total"

_LOG = logging.getLogger("opboost_ops")

_VALUES = {"": False, "off": False, "on": True}


def wanted() -> bool:
    """True if this process sends metrics.

    Raises:
        ConfigError: The variable is neither ``on`` nor ``off``.
    """
    value = os.environ.get(VARIABLE, "").lower()
    if value not in _VALUES:
        raise ConfigError(
            f"{VARIABLE} is neither on nor off.",
            "Correct it on this worker, or unset it; then clear the task.",
        )
    return _VALUES[value]


class Meter:
    """Sends the metrics of one task of a party.

    Args:
        federation: Name of the federation.
        party: Name of the party.
        stage: Name of the stage.
    """

    def __init__(self, federation: str, party: str, stage: str) -> None:
        self._party = {"federation": federation, "party": party}
        self._stage = {**self._party, "stage": stage}
        self._began = time.monotonic()

    def fact(self, name: str, value: float) -> None:
        """Send one of `pipeline.runner.facts`.

        Args:
            name: Name of the fact.
            value: Its value, or increment.
        """
        from opboost_ops.pipeline.runner.facts import ADDED

        if ADDED[name]:
            _send("incr", name, int(value), self._stage)
        else:
            _send("gauge", name, value, self._party)

    def ended(self, outcome: Outcome) -> None:
        """Send the task's outcome and duration."""
        _send("incr", STAGES, 1, {**self._stage, "outcome": outcome})
        _send("gauge", SECONDS, round(time.monotonic() - self._began), self._stage)

    def refused(self) -> None:
        """Count a rejected artifact of another party."""
        _send("incr", REFUSED, 1, self._stage)


def meter(federation: str, party: str, stage: str) -> Meter | None:
    """Return a task's meter if this worker sends metrics, else None.

    Args:
        federation: Name of the federation.
        party: Name of the party.
        stage: Name of the stage.
    """
    try:
        return Meter(federation, party, stage) if wanted() else None
    except ConfigError:
        # The task itself reports the error.
        return None


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Count a successful run.

    Args:
        dag_run: The scheduler's run.
        msg: Airflow's message about the run's end.
    """
    _run(dag_run, "success", msg)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Count a failed run.

    Args:
        dag_run: The scheduler's run.
        msg: Airflow's message about the run's end.
    """
    _run(dag_run, "failed", msg)


def _run(dag_run: Any, state: str, msg: str) -> None:
    if dag_run.dag is None or TAG not in dag_run.dag.tags or by_hand(msg):
        return
    try:
        if not wanted():
            return
    except ConfigError as error:
        _LOG.warning("the run is not counted: %s", error)
        return
    _send("incr", RUNS, 1, {"dag_id": dag_run.dag_id, "state": state}, scheduler=True)
    if state == "success":
        _send("gauge", SUCCESS, int(time.time()), {"dag_id": dag_run.dag_id}, scheduler=True)


def _send(
    how: Literal["incr", "gauge"],
    name: str,
    value: float,
    tags: Mapping[str, str],
    scheduler: bool = False,
) -> None:
    try:
        # Airflow initialises a different module in each kind of process.
        where = "airflow.observability" if scheduler else "airflow.sdk.observability"
        stats = importlib.import_module(f"{where}.stats").Stats
        full = ".".join(["opboost", *(tags.values() if _without_tags() else ()), name])
        getattr(stats, how)(full, value, tags=dict(tags))
    except Exception as error:
        # A metric that cannot be sent must not affect the task or run.
        _LOG.warning("the metric %s could not be sent (%s)", name, type(error).__name__)


@cache
def _without_tags() -> bool:
    """True if the backend drops tags, so that the metric's name must contain them."""
    from airflow.configuration import conf

    tagged = ("statsd_datadog_enabled", "statsd_influxdb_enabled")
    return conf.getboolean("metrics", "statsd_on") and not any(
        conf.getboolean("metrics", name, fallback=False) for name in tagged
    )
