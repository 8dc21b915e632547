"""Facts about DAGs from Airflow's database: those of a federation, schedules, and faults."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opboost_ops.orchestration.pages.airflow import TAG, query_airflow, utc

#: Additional tag of the DAG of a faulty federation file.
INVALID = "invalid"

#: Airflow's name of the timetable of a DAG without a schedule.
_UNSCHEDULED = "None"


def custom_dags(federation: str, purpose: str) -> list[str]:
    """Return the handwritten DAGs that contain a federation as a task group, by their tags.

    Args:
        federation: Name of the federation.
        purpose: ``train`` or ``score``.
    """

    def query(session: Any) -> list[str]:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import DagTag

        tagged = select(DagTag.dag_id).where(DagTag.name == federation)
        statement = select(DagTag.dag_id, DagTag.name).where(DagTag.dag_id.in_(tagged))
        tags: dict[str, set[str]] = {}
        for dag, tag in session.execute(statement):
            tags.setdefault(str(dag), set()).add(str(tag))
        # A party and another federation may share a name: exclude that federation's own DAG.
        return sorted(
            dag
            for dag, own in tags.items()
            if {TAG, purpose} <= own and dag not in {f"{tag}_{purpose}" for tag in own}
        )

    return query_airflow(query, [])


def file_faults(federation: str) -> str:
    """Return the faults of a federation's file from its DAG; empty for a valid file."""

    def query(session: Any) -> str:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import DagTag, SerializedDagModel

        dag = f"{federation}_train"
        statement = select(DagTag.name).where(DagTag.dag_id == dag, DagTag.name == INVALID)
        if session.scalar(statement) is None:
            return ""
        serialised = SerializedDagModel.get(dag, session=session)
        text = (
            serialised.data["dag"].get("doc_md")
            if serialised is not None and serialised.data
            else None
        )
        return str(text or "The federation file has faults.")

    return query_airflow(query, "")


@dataclass(frozen=True)
class Schedule:
    """The schedule of a DAG.

    Attributes:
        dag: Id of the DAG.
        words: Its timetable, such as a cron expression; empty if it has no schedule.
        paused: True if Airflow creates no runs of it.
        next_run: When Airflow creates the next run; None if paused or without a schedule.
    """

    dag: str
    words: str
    paused: bool
    next_run: datetime | None


def schedules(dags: Iterable[str]) -> list[Schedule]:
    """Return the schedules of some DAGs, ordered by id."""

    def query(session: Any) -> list[Schedule]:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import DagModel as Row

        statement = (
            select(Row.dag_id, Row.timetable_summary, Row.is_paused, Row.next_dagrun_create_after)
            .where(Row.dag_id.in_(list(dags)), Row.is_stale.is_(False))
            .order_by(Row.dag_id)
        )
        return [
            Schedule(
                str(dag),
                "" if words in (None, _UNSCHEDULED) else str(words),
                bool(paused),
                None if paused else utc(at),
            )
            for dag, words, paused, at in session.execute(statement)
        ]

    return query_airflow(query, [])
