"""Conditions that a task may wait for, each looked for once, by the task or its trigger."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opboost_ops.config.federation import Purpose
from opboost_ops.exchange.manifest import JOINED


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
            f"{_named(absent, label_holder)}.",
            "Clear the failed tasks of this run, or begin a new run.",
        )
    newer = None
    if party != label_holder:
        newer = invitations.newer(party, this, purpose, hours * 3600)
    if newer is not None:
        raise ArtifactError(
            f"{label_holder} has opened run {newer} since, so run {this.run} is over: "
            f"{party} waits no longer for {_named(absent, label_holder)}.",
            "The new run is joined by itself.",
        )
    if time.time() - started > hours * 3600:
        raise ArtifactError(
            f"{party} has waited for {_named(absent, label_holder)}; in the {hours:g} hours of "
            f"run {this.run} nothing came.",
            "Ask that party to look at its own Airflow. When it runs again, begin a new run; "
            "nothing of this one was accepted in part.",
        )
    return False


def _named(places: Sequence[str], label_holder: str) -> str:
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
