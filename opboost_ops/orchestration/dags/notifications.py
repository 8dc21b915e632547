"""Calls a worker's Airflow notifiers, in public words, for events on that worker.

`OPBOOST_NOTIFIERS` in a worker's environment is ``package.module:name`` of a mapping from events
to lists of notifiers. Only tasks read it, so an invalid value breaks no DAG file; instead, each
task of that worker fails at its start.
"""

import asyncio
import importlib
import logging
import os
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import timedelta
from typing import Any, Literal, get_args

from airflow.sdk import (  # type: ignore[attr-defined]
    AsyncCallback,
    BaseNotifier,
    DeadlineAlert,
    DeadlineReference,
)
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.run_notes import BudgetRefusedError

VARIABLE = "OPBOOST_NOTIFIERS"

Event = Literal[
    "failure", "refused_budget", "champion_changed", "model_kept", "drift", "approval_waiting",
    "budget_low", "key_expires", "agreement_needed", "schedule_stopped", "run_late",
]  # fmt: skip

#: All events, in the order of the documentation.
EVENTS: tuple[Event, ...] = get_args(Event)

#: A run is late if it takes this much longer than usual.
_LATE = timedelta(minutes=15)

_LOG = logging.getLogger("opboost_ops")

_REMEDY = "Correct it on this worker, or unset it; then clear the task."


class PollFailedError(AirflowException):
    """A poll for new runs failed; it started nothing, so Airflow retries after any error."""


def notifiers() -> Mapping[str, Sequence[BaseNotifier]]:
    """Return this worker's notifiers by event; empty if the variable is not set.

    Raises:
        ConfigError: The variable does not name such a mapping.
    """
    value = os.environ.get(VARIABLE, "")
    if not value:
        return {}
    module, _, name = value.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise ConfigError(f"{VARIABLE} is not of the form package.module:name.", _REMEDY)
    problem = ""
    try:
        mapping = getattr(importlib.import_module(module), name)
    except Exception as error:
        # The error's text may contain paths, or anything that the module raised.
        problem = type(error).__name__
    if problem:
        raise ConfigError(f"{VARIABLE}: {value} cannot be imported ({problem}).", _REMEDY)
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{VARIABLE}: {value} is not a mapping of events to notifiers.", _REMEDY)
    unknown = sorted(str(event) for event in mapping if event not in EVENTS)
    if unknown:
        raise ConfigError(
            f"{VARIABLE}: {value} has unknown events: {', '.join(unknown)}. "
            f"Choose one of {', '.join(EVENTS)}.",
            _REMEDY,
        )
    for event, listed in mapping.items():
        if not isinstance(listed, list | tuple) or not all(
            isinstance(notifier, BaseNotifier) for notifier in listed
        ):
            raise ConfigError(
                f"{VARIABLE}: {event} in {value} is not a list of Airflow notifiers.", _REMEDY
            )
    return mapping


def tell(event: Event, words: Mapping[str, Any]) -> None:
    """Call this worker's notifiers of an event; a failing one is logged and otherwise ignored.

    Args:
        event: Name of the event.
        words: Everything that a notifier receives, in its context and templates.

    Raises:
        ConfigError: `OPBOOST_NOTIFIERS` is invalid.
    """
    for notifier in notifiers().get(event, ()):
        try:
            # Rendering changes a notifier in place, so each event needs a copy. `notify` instead of
            # a call, because Airflow's wrapper would log the error, which may contain a secret.
            fresh = copy(notifier)
            context: Any = {**words, "event": event}
            fresh.render_template_fields(context)
            fresh.notify(context)
        except Exception as error:
            _LOG.warning(
                "the notifier %s of %s failed (%s)",
                type(notifier).__name__,
                event,
                type(error).__name__,
            )


def on_failure(context: Mapping[str, Any]) -> None:
    """Notify of a task that has finally failed. Called by Airflow.

    Args:
        context: Airflow's task context; only messages of OpBoost's own exceptions are passed on.
    """
    error = context.get("exception")
    event: Event = "refused_budget" if isinstance(error, BudgetRefusedError) else "failure"
    if isinstance(error, AirflowFailException | ConnectionError | PollFailedError):
        message = str(error)
    elif error is None:
        message = "The task's process ended without a message; check its log and its worker."
    else:
        message = f"The task failed ({type(error).__name__})."
    _tell(event, context, message, getattr(error, "stage", ""))


def registered(context: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Notify of the gate's decision on a new version.

    Args:
        context: Airflow's task context.
        summary: Summary of the stage that registered the version.
    """
    version, why = summary["version"], summary["why"]
    if summary["champion"]:
        _tell("champion_changed", context, f"Model version {version} is the champion: {why}.")
    else:
        words = f"The gate rejected model version {version}, and the champion is unchanged: {why}."
        _tell("model_kept", context, words)


async def on_late(context: Mapping[str, Any]) -> None:
    """Notify of a run that takes longer than usual. Called by Airflow's triggerer.

    Args:
        context: The run under ``dag_run``, as in Airflow's REST API.
    """
    from opboost_ops.exchange.manifest import run_id
    from opboost_ops.orchestration.settings import adopt_section

    # Airflow keeps the deadline of a failed run, which has its own notification.
    if context["dag_run"]["state"] not in ("queued", "running"):
        return
    adopt_section()
    dag, run = context["dag_run"]["dag_id"], context["dag_run"]["dag_run_id"]
    words = {
        "federation": dag.rpartition("_")[0],
        "run": run_id(dag, run),
        "dag_id": dag,
        "run_id": run,
        **dict.fromkeys(("party", "stage", "task_id"), ""),
        "message": f"{dag} takes {_LATE.seconds // 60} minutes longer than the average of its last "
        "runs. Its run's page shows what it waits for.",
    }
    await asyncio.to_thread(_try_to_tell, "run_late", words)


def late_alert() -> DeadlineAlert:
    """Return the alert for a late run, relative to earlier runs, so that it needs no setting."""
    usual = DeadlineReference.AVERAGE_RUNTIME(max_runs=10, min_runs=1)
    # Run by the triggerer: with an executor without callbacks, such as Edge, the scheduler crashes.
    return DeadlineAlert(usual, _LATE, AsyncCallback(on_late))


def notice(context: Mapping[str, Any], name: str, stage: str = "") -> None:
    """Notify the party's own staff of an event that no summary contains.

    Args:
        context: Airflow's task context.
        name: Name of a stage's notice; see `pipeline.stage.Outcome.notices`.
        stage: Name of the stage, in a task that runs several.
    """
    event, message = _NOTICES[name]
    _tell(event, context, message, stage)


def acted(context: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Notify the party's own staff of an admin action in Airflow.

    Args:
        context: Airflow's task context.
        summary: The action's summary.
    """
    if summary["act"] == "stop":
        words = f"{summary['party']} has stopped taking part; `opboost resume` reverses it."
        _tell("schedule_stopped", context, words)
    elif summary["act"] != "resume":
        words = f"Model version {summary['version']} was made champion by a person."
        _tell("champion_changed", context, words)


#: Callbacks for default arguments: per task, so that each runs on its party's own worker.
CALLBACKS = {"on_failure_callback": [on_failure]}


_NOTICES: Mapping[str, tuple[Event, str]] = {
    "budget_low": (
        "budget_low",
        "The next yearly release would exceed a budget: `opboost ledger show SITE` shows which.",
    ),
    "key_expires": (
        "key_expires",
        "The party's signing key expires within two weeks: renew it with `opboost keys renew`.",
    ),
    "approval_waiting": (
        "approval_waiting",
        "A release awaits approval: `opboost approve SITE RUN` shows and answers it.",
    ),
    "agreement_needed": (
        "agreement_needed",
        "A plan was refused because the party has not agreed to it or does not allow it: `opboost "
        "agree SITE FEDERATION` shows the changes, and refused.txt in the run's home folder the "
        "reason.",
    ),
    "schedule_stopped": (
        "schedule_stopped",
        "A run was refused because the party has stopped taking part: `opboost resume` reverses "
        "it.",
    ),
    "schedule_missed": (
        "schedule_stopped",
        "A scheduled run was skipped: nothing ran at its time, and missed times are not caught up.",
    ),
    "drift": ("drift", "Drift was detected; see the run's quality folder at the party."),
}


def _tell(event: Event, context: Mapping[str, Any], message: str, stage: str = "") -> None:
    if not os.environ.get(VARIABLE):
        return
    from opboost_ops.exchange.manifest import run_id

    ti = context["ti"]
    words = {
        "federation": _federation(context["task"], ti.dag_id),
        "party": context["task"].owner,
        "stage": stage or _stage(ti.task_id),
        "run": run_id(ti.dag_id, ti.run_id),
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
        "message": message,
    }
    _try_to_tell(event, words)


def _try_to_tell(event: Event, words: Mapping[str, Any]) -> None:
    try:
        tell(event, words)
    except ConfigError as error:
        _LOG.warning("no notifier was called for %s: %s", event, error)


def _federation(task: Any, dag_id: str) -> str:
    # The id of a handwritten DAG does not contain the federation's name.
    arguments: Mapping[str, Any] = getattr(task, "op_kwargs", None) or {}
    return str(arguments.get("federation") or dag_id.rpartition("_")[0])


def _stage(task_id: str) -> str:
    return task_id.rpartition(".")[2]
