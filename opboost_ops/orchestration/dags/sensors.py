"""Tasks that join a run opened in another Airflow, and wait for what comes from there.

They look at the store for some seconds and then give their slot back; see `operators`.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from opboost_ops.config.federation import Purpose
from opboost_ops.exchange.manifest import JOINED, joined_run
from opboost_ops.orchestration.dags.notifications import LooksAgain
from opboost_ops.orchestration.dags.operators import StillWaiting, began
from opboost_ops.orchestration.dags.run_notes import Failed, plainly
from opboost_ops.orchestration.dags.tasks import execute
from opboost_ops.orchestration.deployment import capacity

_LOG = logging.getLogger("opboost_ops")

#: Seconds that a look lasts while the run is young, between two glances, and of a run's youth.
_LOOK, _STEP, _YOUNG = 10.0, 1.0, 600.0

#: Seconds between two looks: a part of the run's age, within these bounds. If less, Airflow's
#: scheduler might not have noticed the end of the one when it starts the other, and would kill it.
_PART, _SHORTEST, _LONGEST = 1 / 20, 15.0, 60.0


def runs_to_join(
    counts: Any, party: str, federation: str, label_holder: str, hours: float
) -> list[dict[str, str]]:
    """Runs that the label holder has opened and that are to be joined here.

    Args:
        counts: Counts Airflow's runs, as a task instance does.
        party: Who looks: one of this Airflow.
        federation: Name of the federation.
        label_holder: Who opens the runs.
        hours: After so many a run is over.

    Returns:
        For each which DAG is to be started, and under which run id.
    """
    from opboost_ops.pipeline.party import invitations

    joinable = []
    for opened in invitations.to_join(party, federation, label_holder, hours * 3600):
        assert opened.plan is not None
        dag, run = f"{federation}_{opened.plan.purpose}", f"{JOINED}{opened.run}"
        # One that was started, but has not come to its first task, is known to Airflow alone.
        if not counts.get_dr_count(dag_id=dag, run_ids=[run]):
            joinable.append({"dag": dag, "run": run})
    return joinable


def arrived(
    counts: Any,
    party: str,
    federation: str,
    label_holder: str,
    purpose: Purpose,
    wanted: Sequence[str],
    hours: float,
    dag: str,
    run: str,
    started: float,
) -> bool:
    """True if all artifacts have come that are made in another Airflow.

    Args:
        counts: Counts Airflow's tasks, as a task instance does.
        party: Who needs them.
        federation: Name of the federation.
        label_holder: Who opened the run.
        purpose: What the run is for.
        wanted: Places in the run, as ``<kind>/<party>``.
        hours: How old the run may become here.
        dag: Airflow's id of the DAG here.
        run: Airflow's id of its run.
        started: When it began here, in seconds since 1970.

    Raises:
        ArtifactError: They will never come.
    """
    from opboost_ops.errors import ArtifactError
    from opboost_ops.exchange.manifest import run_id
    from opboost_ops.pipeline.party import invitations
    from opboost_ops.pipeline.party.inbox import Run

    this = Run(federation, run_id(dag, run), label_holder)
    absent = invitations.missing(party, this, wanted)
    if not absent:
        return True
    # A run that has failed for one party has failed for all. (With Airflow's own fail_fast the
    # tasks that come last are skipped, and the whole run counts as a success.)
    if counts.get_ti_count(dag_id=dag, run_ids=[run], states=["failed"]):
        raise ArtifactError(
            f"Another task of run {this.run} has failed here: {party} waits no longer for "
            f"{_artifact_names(absent, label_holder)}.",
            "Clear the failed tasks of this run, or begin a new run.",
        )
    newer = None
    if party != label_holder:
        newer = invitations.newer(party, this, purpose, hours * 3600)
    if newer is not None:
        raise ArtifactError(
            f"{label_holder} has opened run {newer} since, so run {this.run} is over: "
            f"{party} waits no longer for {_artifact_names(absent, label_holder)}.",
            "The new run is joined by itself.",
        )
    if time.time() - started > hours * 3600:
        raise ArtifactError(
            f"{party} has waited for {_artifact_names(absent, label_holder)}; in the "
            f"{hours:g} hours of run {this.run} nothing came.",
            "Ask that party to look at its own Airflow. When it runs again, begin a new run; "
            "nothing of this one was accepted in part.",
        )
    return False


def _artifact_names(places: Sequence[str], label_holder: str) -> str:
    from opboost_ops.exchange.manifest import sender_of

    named = []
    for place in places:
        kind, _, about = place.partition("/")
        named.append(f"{kind} of {sender_of(kind, about, label_holder)}")
    return ", ".join(named)


def answered(_: Any, party: str, federation: str, run: str) -> bool:
    """True if a run waits no longer for a person of the party, or nobody has answered in time.

    Args:
        party: Whose person.
        federation: Name of the federation.
        run: The run's id.
    """
    from opboost_ops.config.loading import site_of
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.pipeline.party.approval import is_over, waits_since

    site, _ = site_of(party)
    with open_state(site) as state:
        since = waits_since(state, federation, run)
    return since is None or is_over(since)


#: By name what is looked for.
LOOKS: Mapping[str, Callable[..., Any]] = {
    "answer": answered,
    "runs": runs_to_join,
    "artifacts": arrived,
}


def pause(age: float) -> float:
    """How long until the next look, in seconds.

    Args:
        age: Of the run, in seconds.
    """
    return min(max(age * _PART, _SHORTEST), _LONGEST)


def look_for_runs(party: str, federation: str, label_holder: str, hours: float) -> None:
    """Start this Airflow's part of a run that the label holder has opened, if there is one.

    Which DAG is started, and under which run id, follows from the signed plan alone and lies in no
    XCom between.

    Args:
        party: Who looks: one of this Airflow.
        federation: Name of the federation.
        label_holder: Who opens the runs.
        hours: After so many a run is over.

    Raises:
        StillWaiting: There is none yet.
        DagRunTriggerException: Airflow starts the DAG.
    """
    context = get_current_context()
    dag_run = context["dag_run"]
    where: dict[str, Any] = {
        "party": party,
        "federation": federation,
        "label_holder": label_holder,
        "hours": hours,
    }
    joinable: list[dict[str, str]] = []

    def look() -> bool:
        joinable.extend(runs_to_join(context["ti"], **where))
        return bool(joinable)

    failure = ""
    try:
        _look(f"look_for_runs at {party}", look, dag_run)
    except AirflowFailException as error:
        failure = str(error)
    if failure:
        raise LooksAgain(failure)
    if not joinable:
        raise StillWaiting("runs", where, pause(_age(dag_run)))
    raise DagRunTriggerException(
        trigger_dag_id=joinable[0]["dag"],
        dag_run_id=joinable[0]["run"],
        conf=None,
        reset_dag_run=False,
        skip_when_already_exists=True,
        wait_for_completion=False,
        allowed_states=[],
        failed_states=[],
        poke_interval=0,
        deferrable=False,
    )


@plainly
def join_run(party: str, federation: str, label_holder: str, purpose: Purpose) -> dict[str, Any]:
    """Take part in the run that Airflow's id of this run names.

    Args:
        party: Who joins.
        federation: Name of the federation.
        label_holder: Who opened it.
        purpose: What it is for.
    """
    context = get_current_context()
    run = joined_run(context["dag_run"].run_id)
    if run is None:
        raise Failed(
            f"{label_holder} opens the runs of {federation}, in another Airflow; {federation}_join "
            "starts them here.",
            f"To join one by hand, trigger this DAG with the run id {JOINED} and the id that the "
            "summary of open_run says there.",
        )

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party import invitations
        from opboost_ops.pipeline.party.inbox import Run

        this = Run(federation, run, label_holder)
        return invitations.join(party, this, purpose, capacity.faults(context["ti"]))

    return execute(f"join_run at {party}", work)


@plainly
def wait_for(wanted: Sequence[str], hours: float, **who: Any) -> dict[str, Any]:
    """Look whether artifacts have come that are made in another Airflow.

    Args:
        wanted: Places in the run, as ``<kind>/<party>``.
        hours: How old the run may become here.
        **who: Party, federation, label holder and purpose; see `sensors.arrived`.

    Returns:
        The summary.

    Raises:
        StillWaiting: Something is absent.
    """
    context = get_current_context()
    dag_run = context["dag_run"]
    where = {
        **who,
        "wanted": list(wanted),
        "hours": hours,
        "dag": dag_run.dag_id,
        "run": dag_run.run_id,
        "started": began(dag_run),
    }

    def look() -> bool:
        return arrived(context["ti"], **where)

    if not _look(f"wait_for at {who['party']}", look, dag_run, hours * 3600):
        raise StillWaiting("artifacts", where, pause(_age(dag_run)))
    return {"arrived": list(wanted)}


def _look(what: str, look: Callable[[], bool], dag_run: Any, patience: float | None = None) -> bool:
    """Look for some seconds; whether there was something to see."""
    sightings: list[bool] = []

    def work() -> Mapping[str, Any]:
        end = time.monotonic() + (_LOOK if _age(dag_run) < _YOUNG else 0.0)
        while not look():
            if time.monotonic() >= end:
                return {}
            time.sleep(_STEP)
        sightings.append(True)
        return {}

    try:
        execute(what, work)
    except ConnectionError as error:
        # An outage costs no try: the wait is longer than any number of tries.
        if patience is not None and _age(dag_run) > patience:
            raise
        _LOG.warning("%s", error)
    return bool(sightings)


def _age(dag_run: Any) -> float:
    return time.time() - began(dag_run)
