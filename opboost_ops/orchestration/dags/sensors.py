"""Tasks that join a run opened in another Airflow, and wait for artifacts from there.

A task polls the store for some seconds and then releases its slot; see `operators`.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from opboost_ops.config.federation import Purpose
from opboost_ops.exchange.manifest import JOINED, joined_run
from opboost_ops.orchestration.dags.notifications import PollFailedError
from opboost_ops.orchestration.dags.operators import NotReady, began
from opboost_ops.orchestration.dags.run_notes import TaskFailedError, log_failure
from opboost_ops.orchestration.dags.tasks import execute
from opboost_ops.orchestration.dags.triggers import pause
from opboost_ops.orchestration.deployment import capacity

_LOG = logging.getLogger("opboost_ops")

#: Seconds per poll while a run is new, poll interval, and age below which a run is new.
_POLL_SECONDS, _POLL_INTERVAL, _NEW_RUN_AGE = 10.0, 1.0, 600.0

#: Minimum seconds between two polls. If the pause were shorter, Airflow's scheduler might start the
#: next try before it noticed the end of the last one, and kill it.
_MIN_PAUSE = 15.0


def runs_to_join(
    counts: Any, party: str, federation: str, label_holder: str, hours: float
) -> list[dict[str, str]]:
    """Return the runs that the label holder has opened and this Airflow has not joined.

    Args:
        counts: An object that counts Airflow's runs, such as a task instance.
        party: A party of this Airflow.
        federation: Name of the federation.
        label_holder: The party that opens the runs.
        hours: Age after which a run is over.

    Returns:
        Per run, the ``dag`` to start and the ``run`` id to start it with.
    """
    from opboost_ops.pipeline.party import invitations

    joinable = []
    for opened in invitations.to_join(party, federation, label_holder, hours * 3600):
        assert opened.plan is not None
        dag, run = f"{federation}_{opened.plan.purpose}", f"{JOINED}{opened.run}"
        # Only Airflow knows of a run that was started but has not reached its first task.
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
    """True if all artifacts from another Airflow have arrived.

    Args:
        counts: An object that counts Airflow's tasks, such as a task instance.
        party: The party that needs them.
        federation: Name of the federation.
        label_holder: The party that opened the run.
        purpose: ``train`` or ``score``.
        wanted: Places in the run, as ``<kind>/<party>``.
        hours: Maximum age of the run in this Airflow.
        dag: Airflow's id of the DAG.
        run: Airflow's id of the run.
        started: When the run began in this Airflow, in seconds since 1970.

    Raises:
        ArtifactError: The artifacts will never arrive.
    """
    from opboost_ops.errors import ArtifactError
    from opboost_ops.exchange.manifest import run_id
    from opboost_ops.pipeline.party import invitations
    from opboost_ops.pipeline.party.inbox import Run

    this = Run(federation, run_id(dag, run), label_holder)
    absent = invitations.missing(party, this, wanted)
    if not absent:
        return True
    # A run that failed for one party has failed for all. (With Airflow's fail_fast, the last tasks
    # are skipped and the whole run counts as a success.)
    if counts.get_ti_count(dag_id=dag, run_ids=[run], states=["failed"]):
        raise ArtifactError(
            f"Another task of run {this.run} failed here, so {party} no longer waits for "
            f"{_artifact_names(absent, label_holder)}.",
            "Clear the failed tasks of this run, or start a new run.",
        )
    newer = None
    if party != label_holder:
        newer = invitations.newer(party, this, purpose, hours * 3600)
    if newer is not None:
        raise ArtifactError(
            f"{label_holder} has since opened run {newer}, which ends run {this.run}: "
            f"{party} no longer waits for {_artifact_names(absent, label_holder)}.",
            "The new run is joined automatically.",
        )
    if time.time() - started > hours * 3600:
        raise ArtifactError(
            f"{party} has waited for {_artifact_names(absent, label_holder)}, which did not "
            f"arrive within the {hours:g} hours of run {this.run}.",
            "Ask that party to check its own Airflow. When it works again, start a new run; "
            "this one was not accepted in part.",
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
    """True if a run no longer awaits the party's approval, or the approval has timed out.

    Args:
        party: The party that must approve.
        federation: Name of the federation.
        run: Id of the run.
    """
    from opboost_ops.config.loading import site_of
    from opboost_ops.exchange.party_state import open_state
    from opboost_ops.pipeline.party.approval import is_over, waits_since

    site, _ = site_of(party)
    with open_state(site) as state:
        since = waits_since(state, federation, run)
    return since is None or is_over(since)


#: Polled conditions, by name.
CONDITIONS: Mapping[str, Callable[..., Any]] = {
    "answer": answered,
    "runs": runs_to_join,
    "artifacts": arrived,
}


def look_for_runs(party: str, federation: str, label_holder: str, hours: float) -> None:
    """Start this Airflow's tasks of a run that the label holder has opened, if there is one.

    The signed plan alone determines the DAG and the run id; no XCom carries them.

    Args:
        party: A party of this Airflow.
        federation: Name of the federation.
        label_holder: The party that opens the runs.
        hours: Age after which a run is over.

    Raises:
        NotReady: There is none yet.
        DagRunTriggerException: Makes Airflow start the DAG.
    """
    context = get_current_context()
    dag_run = context["dag_run"]
    arguments: dict[str, Any] = {
        "party": party,
        "federation": federation,
        "label_holder": label_holder,
        "hours": hours,
    }
    joinable: list[dict[str, str]] = []

    def poll() -> bool:
        joinable.extend(runs_to_join(context["ti"], **arguments))
        return bool(joinable)

    failure = ""
    try:
        _poll(f"look_for_runs at {party}", poll, dag_run)
    except AirflowFailException as error:
        failure = str(error)
    if failure:
        raise PollFailedError(failure)
    if not joinable:
        raise NotReady("runs", arguments, pause(_age(dag_run), _MIN_PAUSE))
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


@log_failure
def join_run(party: str, federation: str, label_holder: str, purpose: Purpose) -> dict[str, Any]:
    """Take part in the run that this Airflow run's id names.

    Args:
        party: The party that joins.
        federation: Name of the federation.
        label_holder: The party that opened the run.
        purpose: ``train`` or ``score``.
    """
    context = get_current_context()
    run = joined_run(context["dag_run"].run_id)
    if run is None:
        raise TaskFailedError(
            f"{label_holder} opens the runs of {federation} in another Airflow, and "
            f"{federation}_join starts them here.",
            f"To join one by hand, trigger this DAG with a run id of {JOINED} followed by the id "
            "in the summary of open_run there.",
        )

    def work() -> Mapping[str, Any]:
        from opboost_ops.pipeline.party import invitations
        from opboost_ops.pipeline.party.inbox import Run

        this = Run(federation, run, label_holder)
        return invitations.join(party, this, purpose, capacity.faults(context["ti"]))

    return execute(f"join_run at {party}", work)


@log_failure
def wait_for(wanted: Sequence[str], hours: float, **who: Any) -> dict[str, Any]:
    """Succeed once artifacts from another Airflow have arrived.

    Args:
        wanted: Places in the run, as ``<kind>/<party>``.
        hours: Maximum age of the run in this Airflow.
        **who: Party, federation, label holder and purpose; see `sensors.arrived`.

    Returns:
        The summary.

    Raises:
        NotReady: An artifact is missing.
    """
    context = get_current_context()
    dag_run = context["dag_run"]
    arguments = {
        **who,
        "wanted": list(wanted),
        "hours": hours,
        "dag": dag_run.dag_id,
        "run": dag_run.run_id,
        "started": began(dag_run),
    }

    def poll() -> bool:
        return arrived(context["ti"], **arguments)

    if not _poll(f"wait_for at {who['party']}", poll, dag_run, hours * 3600):
        raise NotReady("artifacts", arguments, pause(_age(dag_run), _MIN_PAUSE))
    return {"arrived": list(wanted)}


def _poll(
    what: str, condition: Callable[[], bool], dag_run: Any, max_age: float | None = None
) -> bool:
    """Poll a condition for some seconds; True if it was met.

    Network failures are logged and count as not met, until the run is older than ``max_age``.
    """
    met: list[bool] = []

    def work() -> Mapping[str, Any]:
        end = time.monotonic() + (_POLL_SECONDS if _age(dag_run) < _NEW_RUN_AGE else 0.0)
        while not condition():
            if time.monotonic() >= end:
                return {}
            time.sleep(_POLL_INTERVAL)
        met.append(True)
        return {}

    try:
        execute(what, work)
    except ConnectionError as error:
        # An outage must not use up a retry: the wait outlasts any number of retries.
        if max_age is not None and _age(dag_run) > max_age:
            raise
        _LOG.warning("%s", error)
    return bool(met)


def _age(dag_run: Any) -> float:
    return time.time() - began(dag_run)
