"""Runs in a real database of Airflow's, as its scheduler and its tasks leave them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.models.dag import DagModel, DagTag
from airflow.models.dag_version import DagVersion
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import delete, insert
from uuid6 import uuid7

from opboost_ops.pipeline.stage import Home

TRAIN = "credit_scoring_train"
NEXT = datetime(2031, 5, 6, 3, tzinfo=UTC)


def write_run(
    name: str,
    state: str,
    tasks: dict[str, str] | None = None,
    failures: dict[str, dict[str, Any]] | None = None,
    dag: str = TRAIN,
    ago: timedelta = timedelta(minutes=40),
) -> datetime:
    """A run of a DAG; tasks by id with their states, one that has opened it when absent.

    Returns:
        When it began; each task a minute after the one before.
    """
    tasks = {"credit_open.open_run": "success"} if tasks is None else tasks
    began = datetime.now(UTC).replace(microsecond=0) - ago
    with create_session() as session:
        fields = {"run_type": "manual", "state": state, "run_after": began, "start_date": began}
        asked = insert(DagRun).values(dag_id=dag, run_id=name, **fields)
        (row,) = session.execute(asked).inserted_primary_key  # type: ignore[attr-defined]
        for at, (task, how) in enumerate(tasks.items()):
            session.execute(
                insert(TaskInstance).values(
                    id=uuid7(),
                    task_id=task,
                    dag_id=dag,
                    run_id=name,
                    state=how or None,
                    pool="default_pool",
                    queue=task.partition("_")[0],
                    map_index=-1,
                    try_number=1,
                    queued_dttm=began + timedelta(minutes=at) if how else None,
                    start_date=began + timedelta(minutes=at) if how not in ("", "queued") else None,
                    pid=1 if how not in ("", "queued") else None,
                )
            )
        for task, left in (failures or {}).items():
            session.execute(
                insert(XComModel).values(
                    dag_run_id=row,
                    task_id=task,
                    dag_id=dag,
                    run_id=name,
                    map_index=-1,
                    key="failure",
                    value=json.dumps(left),
                    timestamp=began,
                )
            )
    return began


def tell_trees(home: Path, run: str, started: datetime) -> None:
    """What training at a party keeps in its home of how far it is."""
    far = {"what": "trees", "done": 120, "of": 400, "first": 20, "counted": 30.0}
    told = {**far, "started": started.timestamp()}
    Home(home / "credit_scoring" / run).write_json("progress/train", told)


def forget_runs() -> None:
    """Take all runs out of the database."""
    with create_session() as session:
        for model in (XComModel, TaskInstance, DagRun):
            session.execute(delete(model))


def write_dag(dag: str, *tags: str, due: datetime | None = None) -> None:
    """A DAG that is not paused."""
    with create_session() as session:
        session.execute(
            insert(DagModel).values(
                dag_id=dag,
                bundle_name="b",
                is_paused=False,
                is_stale=False,
                timetable_type="cron",
                max_active_tasks=16,
                max_consecutive_failed_dag_runs=0,
                has_task_concurrency_limits=False,
                next_dagrun_create_after=due,
            )
        )
        for tag in tags:
            session.execute(insert(DagTag).values(dag_id=dag, name=tag))


@contextmanager
def known_dags(*dags: str, due: datetime | None = None) -> Iterator[None]:
    """DAGs without runs in the database; nothing of them is there afterwards."""
    forget_runs()
    with create_session() as session:
        session.execute(insert(DagBundleModel).values(name="b", active=True))
    for dag in dags:
        write_dag(dag, due=due)
    yield
    forget_runs()
    with create_session() as session:
        for model in (Log, SerializedDagModel, DagVersion, DagTag, DagModel, DagBundleModel):
            session.execute(delete(model))
