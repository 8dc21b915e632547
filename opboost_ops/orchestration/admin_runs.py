"""What the scheduler does about a run by which a person acts at one party.

The tasks of other parties are skipped before they are queued, so that none of their workers is
needed. A stop ends the federation's current runs as failed, with the reason, and pauses its DAGs.
A resume unpauses those DAGs that were not paused before, unless another party's stop still holds
them. Which DAGs a stop paused is in XCom of its own run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.orchestration.our_runs import ADMIN_TAG, our_session
from opboost_ops.orchestration.run_notes import STOPPED
from opboost_ops.pages.airflow import BUSY, ENDED, FAILURE

_RUNS = ("train", "score", "tables", "join")

#: Under this key a stop leaves in XCom which DAGs it paused.
PAUSED = "paused"


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Skip the tasks of parties of which nothing is asked.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = _session(dag_run)
    if session is None:
        return
    chosen = f"{(dag_run.conf or {}).get('party')}_act"
    instances = dag_run.get_task_instances(session=session)
    if any(ti.task_id == chosen for ti in instances):
        for ti in instances:
            if ti.task_id != chosen and ti.state is None:
                ti.set_state("skipped", session=session)


@hookimpl
def on_dag_run_success(dag_run: Any) -> None:
    """Pause the federation's DAGs and end its runs after a stop; unpause them after a resume.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = _session(dag_run)
    act = (dag_run.conf or {}).get("act")
    if session is None or act not in ("stop", "resume"):
        return
    name = dag_run.dag_id.rpartition("_")[0]
    dags = [f"{name}_{what}" for what in _RUNS]
    with session.no_autoflush:
        if act == "stop":
            _stop(session, dag_run, dags)
        else:
            _set_paused(session, to_unpause(_acts(session, dag_run)), False)


def to_unpause(acts: Iterable[tuple[str, str, Sequence[str]]]) -> list[str]:
    """The DAGs that are unpaused after a resume.

    Args:
        acts: Stops and resumes in order: which, of which party, and which DAGs a stop paused.

    Returns:
        Nothing while another party's stop holds the federation.
    """
    stops: set[str] = set()
    paused: set[str] = set()
    for act, party, dags in acts:
        if act == "stop":
            if dags:
                # They ran, so no earlier stop held the federation any more: it ended at home.
                stops, paused = set(), {*dags}
            stops.add(party)
        else:
            stops.discard(party)
    return [] if stops else sorted(paused)


def _stop(session: Any, dag_run: Any, dags: Sequence[str]) -> None:
    from sqlalchemy import select

    from opboost_ops.pages.airflow_tables import DagModel, DagRun, XComModel

    asked = select(DagModel.dag_id).where(DagModel.dag_id.in_(dags), DagModel.is_paused.is_(False))
    paused = sorted(map(str, session.scalars(asked)))
    _set_paused(session, paused, True)
    party = _party(dag_run)
    XComModel.set(
        PAUSED,
        paused,
        dag_id=dag_run.dag_id,
        task_id=f"{party}_act",
        run_id=dag_run.run_id,
        session=session,
    )
    left = {
        "problem": f"{party} has stopped taking part in {dags[0].rpartition('_')[0]}.",
        "remedy": (
            f"After its people resume, with `resume` in {dag_run.dag_id}, the schedule continues; "
            "trigger a new run if you need one before."
        ),
    }
    current = select(DagRun).where(DagRun.dag_id.in_(dags), DagRun.state.in_(("running", "queued")))
    for run in session.scalars(current).all():
        _end(session, run, left)


def _end(session: Any, run: Any, left: Mapping[str, str]) -> None:
    """Fail a run: a task that is under way leaves why; the worker notices and ends its process."""
    from opboost_ops.pages.airflow_tables import XComModel

    for ti in run.get_task_instances(session=session):
        if ti.state in ENDED:
            continue
        busy = ti.state in BUSY and ti.state != "queued"
        ti.set_state("failed" if busy else "upstream_failed", session=session)
        if busy:
            where = {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id}
            XComModel.set(FAILURE, dict(left), **where, map_index=ti.map_index, session=session)
    run.set_state("failed")
    run.note = f"{STOPPED}{left['problem']} {left['remedy']}"


def _acts(session: Any, dag_run: Any) -> list[tuple[str, str, list[str]]]:
    """Stops and resumes that succeeded, in the order in which the parties' tasks did them.

    A run that is cleared may succeed again without its party's task: that one did nothing.
    """
    from sqlalchemy import or_, select

    from opboost_ops.pages.airflow_tables import DagRun, TaskInstance, XComModel

    this = dag_run.dag_id
    of = select(XComModel.run_id, XComModel.value).where(
        XComModel.dag_id == this, XComModel.key == PAUSED
    )
    paused = {
        str(run): json.loads(value) if isinstance(value, str) else value
        for run, value in session.execute(of)
    }
    done = select(TaskInstance.run_id, TaskInstance.task_id, TaskInstance.start_date).where(
        TaskInstance.dag_id == this, TaskInstance.state == "success"
    )
    begun = {(str(run), str(task)): at for run, task, at in session.execute(done)}
    asked = select(DagRun).where(
        DagRun.dag_id == this, or_(DagRun.state == "success", DagRun.id == dag_run.id)
    )
    acts = []
    for run in session.scalars(asked):
        at = begun.get((str(run.run_id), f"{_party(run)}_act"))
        if at is not None and (run.conf or {}).get("act") in ("stop", "resume"):
            what = (run.conf["act"], _party(run), paused.get(str(run.run_id), []))
            acts.append(((at, run.id), what))
    return [what for _, what in sorted(acts)]


def _set_paused(session: Any, dags: Sequence[str], paused: bool) -> None:
    from sqlalchemy import update

    from opboost_ops.pages.airflow_tables import DagModel

    session.execute(update(DagModel).where(DagModel.dag_id.in_(dags)).values(is_paused=paused))


def _party(dag_run: Any) -> str:
    return str((dag_run.conf or {}).get("party"))


def _session(dag_run: Any) -> Any:
    session = our_session(dag_run)
    return session if session is not None and ADMIN_TAG in dag_run.dag.tags else None
