"""A stop through Airflow ends the current runs and pauses the schedule; a resume restores it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select, update

from opboost_ops.orchestration import admin_runs, run_notes
from opboost_ops.pages import airflow
from tests.unit.pages.airflow_runs import TRAIN, known_dags, write_run

ADMIN, SCORE = "credit_scoring_admin", "credit_scoring_score"
BEGUN, WAITING, LATER = "bank_release.rank", "shop_release.rank", "credit_train.train"


@pytest.fixture(autouse=True)
def dags(application: object) -> Iterator[None]:
    with known_dags(TRAIN, SCORE, "other_train"):
        yield


def act(name: str, act: str, party: str) -> None:
    """What the scheduler does when a run of the admin DAG has succeeded."""
    task = f"{party}_act"
    write_run(name, "running", {task: "success"}, dag=ADMIN)
    succeeded(name, {"act": act, "party": party})


def succeeded(name: str, conf: Any) -> None:
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == name))
        assert run is not None
        run.conf, run.state = conf, "success"
        run.dag = SimpleNamespace(tags={"opboost", "admin"})  # type: ignore[assignment]
        session.flush()
        admin_runs.on_dag_run_success(run)


def paused() -> list[str]:
    with create_session() as session:
        asked = select(DagModel.dag_id).where(DagModel.is_paused).order_by(DagModel.dag_id)
        return list(session.scalars(asked))


def pause(dag: str, to: bool) -> None:
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag).values(is_paused=to))


def test_a_stop_ends_the_current_run_with_its_reason() -> None:
    states = {"credit_open.open_run": "success", BEGUN: "running", WAITING: "queued", LATER: ""}
    write_run("now", "running", states)
    write_run("next", "queued", {BEGUN: ""})
    write_run("before", "success", {BEGUN: "success"})
    write_run("foreign", "running", {BEGUN: "running"}, dag="other_train")
    act("stop", "stop", "bank")
    seen = {run.name: run for run in airflow.runs([TRAIN, "other_train"])}
    assert {name: run.state for name, run in seen.items()} == {
        "now": "failed",
        "next": "failed",
        "before": "success",
        "foreign": "running",
    }
    tasks = {task.name: task for task in airflow.tasks(seen["now"])}
    assert {name: task.state for name, task in tasks.items()} == {
        "credit_open.open_run": "success",
        BEGUN: "failed",
        WAITING: "upstream_failed",
        LATER: "upstream_failed",
    }
    assert tasks[BEGUN].problem == "bank has stopped taking part in credit_scoring."
    assert "credit_scoring_admin" in (tasks[BEGUN].failure or {})["remedy"]
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == "now"))
        assert run is not None and "bank has stopped taking part" in str(run.note)
        # The scheduler then finds that the run has failed.
        run.dag = SimpleNamespace(tags={"opboost", "train"})  # type: ignore[assignment]
        run_notes.on_dag_run_failed(run, "task_failure")
        assert "bank has stopped taking part" in str(run.note)
        alive = select(TaskInstance.run_id).where(TaskInstance.state == "running")
        assert list(session.scalars(alive)) == ["foreign"]


def test_a_resume_restores_the_schedule_as_it_was() -> None:
    pause(SCORE, True)
    act("stop", "stop", "bank")
    assert paused() == [SCORE, TRAIN]
    act("resume", "resume", "bank")
    assert paused() == [SCORE], "scoring was paused by a person, and stays so"


def test_another_partys_stop_keeps_the_schedule_paused() -> None:
    act("first", "stop", "bank")
    act("second", "stop", "shop")
    act("third", "resume", "bank")
    assert paused() == [SCORE, TRAIN]
    act("fourth", "resume", "shop")
    assert paused() == []


def test_a_stop_that_ended_at_home_holds_nothing_any_more() -> None:
    act("first", "stop", "bank")
    for dag in (TRAIN, SCORE):
        pause(dag, False)
    act("second", "stop", "shop")
    act("third", "resume", "shop")
    assert paused() == []


def test_a_resume_that_is_cleared_without_its_partys_task_resumes_nothing() -> None:
    """Another party's task of it may be cleared: the run succeeds once more."""
    act("first", "stop", "bank")
    act("second", "resume", "bank")
    assert paused() == []
    act("third", "stop", "bank")
    assert paused() == [SCORE, TRAIN]
    succeeded("second", {"act": "resume", "party": "bank"})
    assert paused() == [SCORE, TRAIN]
