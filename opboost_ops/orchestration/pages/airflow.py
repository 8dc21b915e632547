"""Facts about runs from Airflow's database: tasks, their states, and failures.

Only the API server can read the database. Elsewhere, or on an error, results are empty.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, Field

from opboost_ops.config.schema import Record
from opboost_ops.exchange.manifest import run_id
from opboost_ops.pipeline.protocol import PHASES

#: Maximum length of a failure's texts and of a stage's name, in characters.
FAILURE_LIMIT, _NAME_LIMIT = 2048, 60

#: Maximum length of its XCom in the database: nested JSON, in which characters may be escaped.
_MAX_XCOM_LENGTH = 4 * FAILURE_LIMIT

#: Tag of each DAG that contains a federation, besides those of its purpose and the federation.
TAG = "opboost"

#: Suffixes of the task groups of federations.
_PHASES = frozenset(phase.name for phase in PHASES)

#: Rows per fetch when searching for a run.
_FETCH_ROWS = 200

#: States of a task in progress, and of a finished one.
BUSY = ("running", "queued", "up_for_retry", "up_for_reschedule", "restarting", "deferred")
ENDED = ("success", "skipped", "failed", "upstream_failed", "removed")

#: Events in Airflow's log for a user who sets the state of a run or task.
_MARK_EVENTS = ("patch_dag_run", "patch_task_instance")

#: A federation's DAGs by purpose, in words.
PURPOSES: Mapping[str, str] = {"train": "training", "score": "scoring"}

#: XCom key under which a task records its failure.
FAILURE = "failure"

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class AirflowRun:
    """A run of a DAG.

    Attributes:
        dag: Id of the DAG.
        name: Airflow's id of the run.
        state: Airflow's state.
        due: The time for which it was created.
        began: When it began.
        ended: When it ended.
    """

    dag: str
    name: str
    state: str
    due: datetime | None = None
    began: datetime | None = None
    ended: datetime | None = None

    @property
    def run(self) -> str:
        """OpBoost's id of the run."""
        return run_id(self.dag, self.name)

    @property
    def href(self) -> str:
        """Path of its page in Airflow."""
        return f"/dags/{quote(self.dag)}/runs/{quote(self.name, safe='')}"


def _printable(text: str) -> str:
    # Some databases cannot store NUL, and other control characters affect terminals.
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")


PrintableText = Annotated[str, AfterValidator(_printable)]


class Failure(Record):
    """A task's failure, as recorded in XCom by its worker.

    Attributes:
        problem: What happened, and where.
        remedy: How to fix it.
        refused: True if the party's budget did not allow the release.
        stage: Name of the failed stage, in a task that runs stages.
    """

    problem: PrintableText = Field(max_length=FAILURE_LIMIT)
    remedy: PrintableText = Field("", max_length=FAILURE_LIMIT)
    refused: bool = False
    stage: PrintableText = Field("", max_length=_NAME_LIMIT)


def failure_in(value: Any) -> Failure | None:
    """Return the failure in an XCom, which any worker can write; None if it is malformed.

    Args:
        value: The XCom's value, or its JSON.
    """
    try:
        return Failure.model_validate(json.loads(value) if isinstance(value, str) else value)
    except (ValueError, RecursionError):
        return None


def failures_query(dag: str, run: str) -> Any:
    """Return a query of the failures of a run's tasks, oldest first.

    Args:
        dag: Id of the DAG.
        run: Airflow's id of the run.
    """
    from sqlalchemy import Text, cast, func, select

    from opboost_ops.orchestration.pages.airflow_tables import XComModel as Row

    # A worker can write hundreds of megabytes, which must not crash the scheduler.
    size = func.length(cast(Row.value, Text))
    return (
        select(Row.task_id, Row.value)
        .where(Row.dag_id == dag, Row.run_id == run, Row.key == FAILURE, size <= _MAX_XCOM_LENGTH)
        .order_by(Row.timestamp)
    )


@dataclass(frozen=True)
class Task:
    """A task of a run.

    Attributes:
        name: Its id, including its groups.
        state: Airflow's state; empty before it is scheduled.
        queue: The queue from which a worker takes it.
        since: When it began, or was queued.
        ended: When it ended.
        failure: The failure that it recorded.
    """

    name: str
    state: str
    queue: str = ""
    since: datetime | None = None
    ended: datetime | None = None
    failure: Failure | None = None

    @property
    def stage(self) -> str:
        """Name of the failed stage; the task's own name if there is none."""
        return (self.failure and self.failure.stage) or place_of(self.name)[1]

    @property
    def party(self) -> str:
        """Name of its party; empty outside a federation's groups."""
        return place_of(self.name)[0]

    @property
    def problem(self) -> str:
        """The reason for its failure."""
        return self.failure.problem if self.failure else "ended without a message"

    @property
    def title(self) -> str:
        """Its display name."""
        return f"{self.party}: {self.stage}" if self.party else self.stage

    def href(self, run: AirflowRun) -> str:
        """Return the path of its page in Airflow, which shows its log."""
        return f"{run.href}/tasks/{quote(self.name)}"


def place_of(task: str) -> tuple[str, str]:
    """Return a task's party and name; the party is empty outside a federation's groups.

    Args:
        task: Id with its groups; the innermost group is ``<party>_<phase>``.
    """
    groups, _, name = task.rpartition(".")
    party, _, phase = groups.rpartition(".")[2].rpartition("_")
    return party if phase in _PHASES else "", name


def find_run(run: str, dags: Iterable[str]) -> AirflowRun | None:
    """Return the run with an id of OpBoost's, or None.

    Args:
        run: OpBoost's id, as in the run's plan.
        dags: Ids of the DAGs to search.
    """

    def query(session: Any) -> AirflowRun | None:
        # Newest first and in batches, because mostly one of the last runs is requested.
        rows = session.execute(
            _runs_query(list(dags)), execution_options={"yield_per": _FETCH_ROWS}
        )
        return next(
            (candidate for candidate in map(_airflow_run, rows) if candidate.run == run), None
        )

    return query_airflow(query, None)


def runs(
    dags: Iterable[str],
    *,
    name: str = "",
    states: Iterable[str] = (),
    limit: int | None = None,
) -> list[AirflowRun]:
    """Return the runs of some DAGs, newest first.

    Args:
        dags: Ids of the DAGs.
        name: Only the run with this id of Airflow's.
        states: Only runs in these states.
        limit: Maximum number of runs.
    """

    def query(session: Any) -> list[AirflowRun]:
        from opboost_ops.orchestration.pages.airflow_tables import DagRun as Row

        statement = _runs_query(list(dags)).limit(limit)
        if name:
            statement = statement.where(Row.run_id == name)
        if states:
            statement = statement.where(Row.state.in_(list(states)))
        return [_airflow_run(row) for row in session.execute(statement)]

    return query_airflow(query, [])


def marked_by(run: AirflowRun) -> str:
    """Return the user who marked a run, or a task of it, as failed; empty if nobody did."""

    def query(session: Any) -> str:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import Log as Row

        statement = (
            select(Row.owner, Row.dttm)
            .where(Row.dag_id == run.dag, Row.run_id == run.name, Row.event.in_(_MARK_EVENTS))
            .where(Row.extra.contains('"failed"'))
            .order_by(Row.id.desc())
            .limit(1)
        )
        row = session.execute(statement).first()
        # Marks from before the run was cleared do not count.
        if row is None or (run.began and row[1] and aware(row[1]) < aware(run.began)):
            return ""
        return str(row[0] or "somebody")

    return query_airflow(query, "") if run.state == "failed" else ""


def tasks(run: AirflowRun) -> list[Task]:
    """Return the tasks of a run, ordered by their start."""

    def query(session: Any) -> list[Task]:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import TaskInstance as Row

        this = (run.dag, run.name)
        failures = {
            task: failure_in(value) for task, value in session.execute(failures_query(*this))
        }
        statement = select(
            Row.task_id,
            Row.state,
            Row.queue,
            Row.queued_dttm,
            Row.start_date,
            Row.end_date,
        ).where(Row.dag_id == this[0], Row.run_id == this[1])
        instances = [
            Task(
                name,
                str(getattr(state, "value", state) or ""),
                str(queue or ""),
                began if state != "queued" else queued,
                ended,
                # A task that did not fail has no failure, even if a worker wrote one.
                failures.get(name) if state == "failed" else None,
            )
            for name, state, queue, queued, began, ended in session.execute(statement)
        ]
        return sorted(instances, key=lambda t: (t.since is None, t.since or datetime.max, t.name))

    return query_airflow(query, [])


def elapsed(since: datetime | None, until: datetime | None = None) -> str:
    """Return the time between two moments in its two largest units; empty without a start.

    Args:
        since: The start.
        until: The end; now by default.
    """
    if since is None:
        return ""
    return duration((aware(until or datetime.now(UTC)) - aware(since)).total_seconds())


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes, hours, days = (int(seconds // unit) for unit in (60, 3600, 86400))
    if minutes < 1:
        return f"{max(0, int(seconds))} s"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if days < 1 else f"{days} d {hours % 24} h"


def _runs_query(dags: list[str]) -> Any:
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import DagRun as Row

    return (
        select(Row.dag_id, Row.run_id, Row.state, Row.run_after, Row.start_date, Row.end_date)
        .where(Row.dag_id.in_(dags))
        .order_by(Row.id.desc())
    )


def _airflow_run(row: Any) -> AirflowRun:
    dag, run, state, *times = row
    return AirflowRun(dag, run, str(getattr(state, "value", state) or ""), *map(utc, times))


def aware(moment: datetime) -> datetime:
    """Return a time as UTC; some databases store no time zone."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def utc(moment: datetime | None) -> datetime | None:
    """Return a time from the database as UTC, or None."""
    return None if moment is None else aware(moment)


def query_airflow(query: Callable[[Any], _Result], default: _Result) -> _Result:
    """Query Airflow's database.

    Args:
        query: Runs the query in a session.
        default: Returned if there is no database, or it cannot be read.
    """
    from opboost_ops.orchestration.pages.airflow_tables import create_session

    try:
        with create_session() as session:
            return query(session)
    except Exception:
        # Without Airflow's database, the pages show what the parties themselves record.
        return default
