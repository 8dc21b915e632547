"""Airflow's facts about a run: its tasks, how they stand, and why one has failed.

The API server reads its own database. Elsewhere, and where it cannot be read, nothing is known.
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

#: Most letters of a failure's texts, and of a stage's name.
FAILURE_LIMIT, _NAME_LIMIT = 2048, 60

#: Most letters of its XCom in the database: JSON within JSON, where some letters become several.
_LARGEST = 4 * FAILURE_LIMIT

#: Every DAG that holds a federation has this tag, and those of its purpose and of the federation.
TAG = "opboost"

#: How the groups end that are ours.
_PHASES = frozenset(phase.name for phase in PHASES)

#: Runs that are read at a time where one is looked for.
_SOME = 200

#: States of a task that is under way, and of one that has ended.
BUSY = ("running", "queued", "up_for_retry", "up_for_reschedule", "restarting", "deferred")
ENDED = ("success", "skipped", "failed", "upstream_failed", "removed")

#: What Airflow's log calls it when a person sets the state of a run or a task.
_MARKS = ("patch_dag_run", "patch_task_instance")

#: The DAGs of a federation's runs, by what they are for.
PURPOSES: Mapping[str, str] = {"train": "training", "score": "scoring"}

#: Under this key a task leaves in XCom why it failed.
FAILURE = "failure"

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class AirflowRun:
    """One run of a DAG.

    Attributes:
        dag: The DAG's id.
        name: Airflow's id of the run.
        state: How it stands.
        due: For when it was made.
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
        """OpBoost's id of it."""
        return run_id(self.dag, self.name)

    @property
    def href(self) -> str:
        """Its page in Airflow."""
        return f"/dags/{quote(self.dag)}/runs/{quote(self.name, safe='')}"


def _printable(text: str) -> str:
    # Some databases keep no NUL, and a terminal obeys others.
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")


Words = Annotated[str, AfterValidator(_printable)]


class Failure(Record):
    """Why a task failed, as its own worker has left it in XCom.

    Attributes:
        problem: What happened, and where.
        remedy: What to do about it.
        refused: Whether the party's budget refuses.
        stage: Which of its stages failed, in a task that runs stages.
    """

    problem: Words = Field(max_length=FAILURE_LIMIT)
    remedy: Words = Field("", max_length=FAILURE_LIMIT)
    refused: bool = False
    stage: Words = Field("", max_length=_NAME_LIMIT)


def failure_in(value: Any) -> Failure | None:
    """The failure in an XCom, which any worker can write; None where it is of another form.

    Args:
        value: The XCom's, or its JSON.
    """
    try:
        return Failure.model_validate(json.loads(value) if isinstance(value, str) else value)
    except (ValueError, RecursionError):
        return None


def failures_left(dag: str, run: str) -> Any:
    """A query of what a run's tasks have left, by task; the oldest first.

    Args:
        dag: The DAG's id.
        run: Airflow's id of the run.
    """
    from sqlalchemy import Text, cast, func, select

    from opboost_ops.orchestration.pages.airflow_tables import XComModel as Row

    # A worker can write hundreds of megabytes, of which the scheduler must not die.
    size = func.length(cast(Row.value, Text))
    return (
        select(Row.task_id, Row.value)
        .where(Row.dag_id == dag, Row.run_id == run, Row.key == FAILURE, size <= _LARGEST)
        .order_by(Row.timestamp)
    )


@dataclass(frozen=True)
class Task:
    """One task of a run.

    Attributes:
        name: Its id, with its group.
        state: How it stands; empty before it is scheduled.
        queue: From which queue a worker takes it.
        since: When it began, or was queued.
        ended: When it ended.
        failure: What it has left of its failure.
    """

    name: str
    state: str
    queue: str = ""
    since: datetime | None = None
    ended: datetime | None = None
    failure: Failure | None = None

    @property
    def stage(self) -> str:
        """Which of its stages failed; its own name where none has."""
        return (self.failure and self.failure.stage) or place_of(self.name)[1]

    @property
    def party(self) -> str:
        """Whose it is; empty for a task of nobody's group."""
        return place_of(self.name)[0]

    @property
    def problem(self) -> str:
        """Why it failed."""
        return self.failure.problem if self.failure else "ended without a message"

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.party}: {self.stage}" if self.party else self.stage

    def href(self, run: AirflowRun) -> str:
        """Its page in Airflow, which has its log.

        Args:
            run: Its run.
        """
        return f"{run.href}/tasks/{quote(self.name)}"


def place_of(task: str) -> tuple[str, str]:
    """The party and the name of a task; the party is empty for a task of nobody's group.

    Args:
        task: Its id, with the groups that it is in; ours is the innermost, ``<party>_<phase>``.
    """
    groups, _, name = task.rpartition(".")
    party, _, phase = groups.rpartition(".")[2].rpartition("_")
    return party if phase in _PHASES else "", name


def named(run: str, dags: Iterable[str]) -> AirflowRun | None:
    """The run that has an id of ours, which is its plan's; None where Airflow has none.

    Args:
        run: OpBoost's id.
        dags: Ids of the DAGs in which it may be.
    """

    def ask(session: Any) -> AirflowRun | None:
        # Newest first and some at a time: who asks mostly asks for one of the last.
        rows = session.execute(_runs_query(list(dags)), execution_options={"yield_per": _SOME})
        return next(
            (candidate for candidate in map(_airflow_run, rows) if candidate.run == run), None
        )

    return answer_of(ask, None)


def runs(
    dags: Iterable[str],
    *,
    name: str = "",
    states: Iterable[str] = (),
    limit: int | None = None,
) -> list[AirflowRun]:
    """Runs of some DAGs, newest first.

    Args:
        dags: Ids of the DAGs.
        name: Only the one that Airflow calls so.
        states: Only runs in these.
        limit: At most so many.
    """

    def ask(session: Any) -> list[AirflowRun]:
        from opboost_ops.orchestration.pages.airflow_tables import DagRun as Row

        query = _runs_query(list(dags)).limit(limit)
        if name:
            query = query.where(Row.run_id == name)
        if states:
            query = query.where(Row.state.in_(list(states)))
        return [_airflow_run(row) for row in session.execute(query)]

    return answer_of(ask, [])


def marked_by(run: AirflowRun) -> str:
    """The user who marked a run or a task of it as failed; empty where nobody did.

    Args:
        run: The run.
    """

    def ask(session: Any) -> str:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import Log as Row

        query = (
            select(Row.owner, Row.dttm)
            .where(Row.dag_id == run.dag, Row.run_id == run.name, Row.event.in_(_MARKS))
            .where(Row.extra.contains('"failed"'))
            .order_by(Row.id.desc())
            .limit(1)
        )
        row = session.execute(query).first()
        # A run that was cleared since has begun again.
        if row is None or (run.began and row[1] and aware(row[1]) < aware(run.began)):
            return ""
        return str(row[0] or "somebody")

    return answer_of(ask, "") if run.state == "failed" else ""


def tasks(run: AirflowRun) -> list[Task]:
    """The tasks of a run; first those that began first.

    Args:
        run: The run.
    """

    def ask(session: Any) -> list[Task]:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import TaskInstance as Row

        this = (run.dag, run.name)
        left = {task: failure_in(value) for task, value in session.execute(failures_left(*this))}
        query = select(
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
                left.get(name) if state == "failed" else None,
            )
            for name, state, queue, queued, began, ended in session.execute(query)
        ]
        return sorted(instances, key=lambda t: (t.since is None, t.since or datetime.max, t.name))

    return answer_of(ask, [])


def ago(since: datetime | None, until: datetime | None = None) -> str:
    """How long something has lasted, in the two largest units.

    Args:
        since: When it began.
        until: When it ended; now when absent.
    """
    if since is None:
        return ""
    return lasting((aware(until or datetime.now(UTC)) - aware(since)).total_seconds())


def lasting(seconds: float) -> str:
    """A time in the two largest units."""
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
    """A time of a database that knows no zones, as UTC.

    Args:
        moment: The time.
    """
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def utc(moment: datetime | None) -> datetime | None:
    """A time of the database, if there is one.

    Args:
        moment: The time.
    """
    return None if moment is None else aware(moment)


def answer_of(ask: Callable[[Any], _Found], nothing: _Found) -> _Found:
    """Ask Airflow's database.

    Args:
        ask: Asks it, in a session.
        nothing: What is known where there is no database, or it cannot be read.
    """
    from opboost_ops.orchestration.pages.airflow_tables import create_session

    try:
        with create_session() as session:
            return ask(session)
    except Exception:
        # Without a database of Airflow's the pages show what the parties have.
        return nothing
