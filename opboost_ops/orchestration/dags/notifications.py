"""Airflow's own notifiers, told in public words what happened on the worker where it happened.

`OPBOOST_NOTIFIERS` in a worker's environment is ``package.module:name`` of a mapping from events
to lists of notifiers. It is read inside tasks alone, so a wrong value breaks no DAG file: each
task of that worker fails with it before it begins.
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
from opboost_ops.orchestration.dags.run_notes import RefusedBudget

VARIABLE = "OPBOOST_NOTIFIERS"

Event = Literal[
    "failure", "refused_budget", "champion_changed", "model_kept", "drift", "approval_waiting",
    "budget_low", "key_expires", "agreement_needed", "schedule_stopped", "run_late",
]  # fmt: skip

#: Events by name, in the order in which the documentation has them.
EVENTS: tuple[Event, ...] = get_args(Event)

#: A run that takes so much longer than usual is late.
_LATE = timedelta(minutes=15)

_LOG = logging.getLogger("opboost_ops")

_REMEDY = "Correct it on this worker, or unset it; then clear the task."


class LooksAgain(AirflowException):
    """Looking for runs failed; nothing was begun by then, so it is tried again, whatever it was."""


def notifiers() -> Mapping[str, Sequence[BaseNotifier]]:
    """The notifiers of this worker by event; none if the variable is not set.

    Raises:
        ConfigError: The variable does not lead to such a mapping.
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
        # Its text may show paths, or whatever the module wanted to say.
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
    """Call this worker's notifiers of an event; one that fails changes nothing but the log.

    Args:
        event: What happened.
        words: All that a notifier gets to see, in its context and templates.

    Raises:
        ConfigError: `OPBOOST_NOTIFIERS` is wrong.
    """
    for notifier in notifiers().get(event, ()):
        try:
            # It renders its templates in place: the next event must find them unrendered. And it
            # is not called as such, since Airflow's log would get its error, perhaps with a secret.
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
    """Tell of a task that has failed for good. Airflow calls it.

    Args:
        context: Airflow's; of its exception only words of ours are passed on.
    """
    error = context.get("exception")
    event: Event = "refused_budget" if isinstance(error, RefusedBudget) else "failure"
    if isinstance(error, AirflowFailException | ConnectionError | LooksAgain):
        message = str(error)
    elif error is None:
        message = "The task's process ended without a message: its log or its worker may say why."
    else:
        message = f"The task failed ({type(error).__name__})."
    _tell(event, context, message, getattr(error, "stage", ""))


def registered(context: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Report the gate's verdict on a new version.

    Args:
        context: Airflow's.
        summary: Of the stage that registered it, in this process.
    """
    version, why = summary["version"], summary["why"]
    if summary["champion"]:
        _tell("champion_changed", context, f"Model version {version} is the champion: {why}.")
    else:
        words = f"The gate rejected model version {version}, and the champion is unchanged: {why}."
        _tell("model_kept", context, words)


async def on_late(context: Mapping[str, Any]) -> None:
    """Tell of a run that is under way for longer than usual. Airflow's triggerer calls it.

    Args:
        context: The run, as Airflow's REST API shows it, under ``dag_run``.
    """
    from opboost_ops.exchange.manifest import run_id
    from opboost_ops.orchestration.settings import adopt_section

    # Airflow keeps the deadline of a run that has failed, of which people know.
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
        "message": f"{dag} takes {_LATE.seconds // 60} minutes longer than its last runs did on "
        "average: its run's page says on what it waits.",
    }
    await asyncio.to_thread(_try_to_tell, "run_late", words)


def late_alert() -> DeadlineAlert:
    """When a run is late, by the runs before it: no time that anybody must choose, or forgets."""
    usual = DeadlineReference.AVERAGE_RUNTIME(max_runs=10, min_runs=1)
    # In a triggerer: an executor that takes no callbacks, as Edge, ends the scheduler by one.
    return DeadlineAlert(usual, _LATE, AsyncCallback(on_late))


def notice(context: Mapping[str, Any], name: str, stage: str = "") -> None:
    """Tell the party's own people what no summary says.

    Args:
        context: Airflow's.
        name: What a stage noticed; see `pipeline.stage.Outcome.notices`.
        stage: Which one, in a task that runs several.
    """
    event, message = _NOTICES[name]
    _tell(event, context, message, stage)


def acted(context: Mapping[str, Any], done: Mapping[str, Any]) -> None:
    """Tell the party's own people what a person did through Airflow.

    Args:
        context: Airflow's.
        done: The act's summary.
    """
    if done["act"] == "stop":
        words = f"{done['party']} has stopped taking part; `opboost resume` ends that."
        _tell("schedule_stopped", context, words)
    elif done["act"] != "resume":
        words = f"Model version {done['version']} is the champion: a person decided it."
        _tell("champion_changed", context, words)


#: For a DAG's default arguments. Task by task, so that each runs on its party's own worker.
CALLBACKS = {"on_failure_callback": [on_failure]}


_NOTICES: Mapping[str, tuple[Event, str]] = {
    "budget_low": (
        "budget_low",
        "The next yearly release does not fit a budget: `opboost ledger show SITE` says which.",
    ),
    "key_expires": (
        "key_expires",
        "The party's signing key expires within two weeks: `opboost keys renew` makes another.",
    ),
    "approval_waiting": (
        "approval_waiting",
        "A release waits for a person's approval: `opboost approve SITE RUN` shows and answers it.",
    ),
    "agreement_needed": (
        "agreement_needed",
        "A plan was refused that the party has not agreed to, or does not allow: `opboost agree "
        "SITE FEDERATION` shows what is new, and refused.txt in the run's home folder why.",
    ),
    "schedule_stopped": (
        "schedule_stopped",
        "A run was refused, because the party has stopped taking part: `opboost resume` ends that.",
    ),
    "schedule_missed": (
        "schedule_stopped",
        "A scheduled run was skipped: nothing ran at its time, and it is not made up for.",
    ),
    "drift": ("drift", "Drift was noticed; what drifted is in the run's quality folder at home."),
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
        _LOG.warning("nobody was told of %s: %s", event, error)


def _federation(task: Any, dag_id: str) -> str:
    # In people's own DAGs its name is in no DAG's id.
    arguments: Mapping[str, Any] = getattr(task, "op_kwargs", None) or {}
    return str(arguments.get("federation") or dag_id.rpartition("_")[0])


def _stage(task_id: str) -> str:
    return task_id.rpartition(".")[2]
