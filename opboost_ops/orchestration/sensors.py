"""Tasks that join a run opened in another Airflow, and wait for what comes from there.

Sensors look at the store for some seconds and then give their slot back until the next look. A
trigger in Airflow's triggerer would be lighter, but that is no party's worker and has no party's
site.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.config.federation import Purpose
from opboost_ops.exchange.run_id import JOINED, joined_run
from opboost_ops.orchestration import capacity
from opboost_ops.orchestration.failures import Failed, plainly
from opboost_ops.orchestration.notifications import LooksAgain
from opboost_ops.orchestration.tasks import execute

_LOG = logging.getLogger("opboost_ops")

#: Seconds that a look lasts while the run is young, between two glances, and of a run's youth.
_LOOK, _STEP, _YOUNG = 10.0, 1.0, 600.0

#: Seconds between two looks: a part of the run's age, within these bounds. If less, Airflow's
#: scheduler might not have noticed the end of the one when it starts the other, and would kill it.
_PART, _SHORTEST, _LONGEST = 1 / 20, 15.0, 60.0

#: What ends a wait is a limit of its own, which says what did not come, and never Airflow's.
_FOR_EVER = timedelta(days=36_500)


class StoreSensor(BaseSensorOperator):
    """Looks at the store until something is found, and holds no slot between two looks.

    Args:
        python_callable: Looks once; returns what the task leaves in XCom, or None.
        op_kwargs: Its arguments.
        **others: An operator's.
    """

    template_fields = ("op_kwargs",)

    def __init__(
        self,
        *,
        python_callable: Callable[..., dict[str, Any] | None],
        op_kwargs: Mapping[str, Any],
        **others: Any,
    ) -> None:
        super().__init__(mode="reschedule", timeout=_FOR_EVER, **others)
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once. Airflow calls it.

        Args:
            context: Airflow's.
        """
        found = self.python_callable(**self.op_kwargs)
        self.poke_interval = pause(_seconds(context["dag_run"]))
        return PokeReturnValue(found is not None, found)


def pause(age: float) -> float:
    """How long until the next look, in seconds.

    Args:
        age: Of the run, in seconds.
    """
    return min(max(age * _PART, _SHORTEST), _LONGEST)


def look_for_runs(
    party: str, federation: str, label_holder: str, hours: float
) -> dict[str, Any] | None:
    """Look whether the label holder has opened a run that is to be joined.

    Args:
        party: Who looks: one of this Airflow.
        federation: Name of the federation.
        label_holder: Who opens the runs.
        hours: After so many a run is over.

    Returns:
        Which DAG is to be started, and under which run id; None where none is.
    """
    context = get_current_context()
    found: list[dict[str, str]] = []

    def look() -> bool:
        from opboost_ops.run import invitations

        for opened in invitations.to_join(party, federation, label_holder, hours * 3600):
            assert opened.plan is not None
            dag, run = f"{federation}_{opened.plan.purpose}", f"{JOINED}{opened.run}"
            # One that was started, but has not come to its first task, is known to Airflow alone.
            if not context["ti"].get_dr_count(dag_id=dag, run_ids=[run]):
                found.append({"dag": dag, "run": run})
        return bool(found)

    failure = ""
    try:
        _look(f"look_for_runs at {party}", look, context["dag_run"])
    except AirflowFailException as error:
        failure = str(error)
    if failure:
        raise LooksAgain(failure)
    return found[0] if found else None


@plainly
def join_run(party: str, federation: str, label_holder: str, purpose: Purpose) -> dict[str, Any]:
    """Take part in the run that Airflow's id of this run names.

    Args:
        party: Who joins.
        federation: Name of the federation.
        label_holder: Who opened it.
        purpose: What it is for.
    """
    dag_run = get_current_context()["dag_run"]
    run = joined_run(dag_run.run_id)
    if run is None:
        raise Failed(
            f"{label_holder} opens the runs of {federation}, in another Airflow; {federation}_join "
            "starts them here.",
            f"To join one by hand, trigger this DAG with the run id {JOINED} and the id that the "
            "summary of open_run says there.",
        )

    def work() -> Mapping[str, Any]:
        from opboost_ops.run import invitations
        from opboost_ops.run.inbox import Run

        this = Run(federation, run, label_holder)
        return invitations.join(party, this, purpose, capacity.faults(dag_run.conf))

    return execute(f"join_run at {party}", work)


@plainly
def wait_for(
    party: str,
    federation: str,
    label_holder: str,
    purpose: Purpose,
    wanted: Sequence[str],
    hours: float,
) -> dict[str, Any] | None:
    """Look whether artifacts have come that are made in another Airflow.

    Args:
        party: Who needs them.
        federation: Name of the federation.
        label_holder: Who opened the run.
        purpose: What the run is for.
        wanted: Places in the run, as ``<kind>/<party>``.
        hours: How old the run may become here.

    Returns:
        The summary; None while something is absent.
    """
    context = get_current_context()
    dag_run = context["dag_run"]

    def look() -> bool:
        from opboost_ops.errors import ArtifactError
        from opboost_ops.exchange.run_id import run_id
        from opboost_ops.run import invitations
        from opboost_ops.run.inbox import Run

        run = Run(federation, run_id(dag_run.dag_id, dag_run.run_id), label_holder)
        absent = invitations.missing(party, run, wanted)
        # A run that has failed for one party has failed for all. (With Airflow's own fail_fast the
        # tasks that come last are skipped, and the whole run counts as a success.)
        if absent and context["ti"].get_ti_count(
            dag_id=dag_run.dag_id, run_ids=[dag_run.run_id], states=["failed"]
        ):
            raise ArtifactError(
                f"Another task of run {run.run} has failed here: {party} waits no longer for "
                f"{_named(absent, label_holder)}.",
                "Clear the failed tasks of this run, or begin a new run.",
            )
        if absent and party != label_holder:
            newer = invitations.newer(party, run, purpose, hours * 3600)
            if newer is not None:
                raise ArtifactError(
                    f"{label_holder} has opened run {newer} since, so run {run.run} is over: "
                    f"{party} waits no longer for {_named(absent, label_holder)}.",
                    "The new run is joined by itself.",
                )
        if absent and _seconds(dag_run) > hours * 3600:
            raise ArtifactError(
                f"{party} has waited for {_named(absent, label_holder)}; in the {hours:g} hours of "
                f"run {run.run} nothing came.",
                "Ask that party to look at its own Airflow. When it runs again, begin a new run; "
                "nothing of this one was accepted in part.",
            )
        return not absent

    seen = _look(f"wait_for at {party}", look, dag_run, hours * 3600)
    return {"arrived": list(wanted)} if seen else None


def _look(what: str, look: Callable[[], bool], dag_run: Any, patience: float | None = None) -> bool:
    """Look for some seconds; whether there was something to see."""
    seen: list[bool] = []

    def work() -> Mapping[str, Any]:
        end = time.monotonic() + (_LOOK if _seconds(dag_run) < _YOUNG else 0.0)
        while not look():
            if time.monotonic() >= end:
                return {}
            time.sleep(_STEP)
        seen.append(True)
        return {}

    try:
        execute(what, work)
    except ConnectionError as error:
        # An outage costs no try: the wait is longer than any number of tries.
        if patience is not None and _seconds(dag_run) > patience:
            raise
        _LOG.warning("%s", error)
    return bool(seen)


def _named(places: Sequence[str], label_holder: str) -> str:
    from opboost_ops.exchange.manifest import sender_of

    named = []
    for place in places:
        kind, _, about = place.partition("/")
        named.append(f"{kind} of {sender_of(kind, about, label_holder)}")  # type: ignore[arg-type]
    return ", ".join(named)


def _seconds(dag_run: Any) -> float:
    return float((datetime.now(UTC) - dag_run.start_date).total_seconds())
