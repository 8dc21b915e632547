"""Airflow's facts about a DAG: who holds a federation, when it runs, what its file lacks."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opboost_ops.orchestration.pages.airflow import TAG, answer_of, utc

#: A DAG whose federation file is faulty has this tag besides.
INVALID = "invalid"

#: What Airflow calls the timetable of a DAG that only people trigger.
_BY_HAND = "None"


def holders(federation: str, purpose: str) -> list[str]:
    """The DAGs of people's own that hold a federation as a task group, by their tags.

    Args:
        federation: The federation's name.
        purpose: What its runs there are for.
    """

    def ask(session: Any) -> list[str]:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import DagTag

        about = select(DagTag.dag_id).where(DagTag.name == federation)
        query = select(DagTag.dag_id, DagTag.name).where(DagTag.dag_id.in_(about))
        tags: dict[str, set[str]] = {}
        for dag, tag in session.execute(query):
            tags.setdefault(str(dag), set()).add(str(tag))
        # A party may be called as a federation is: that one's own DAG is not this one's.
        return sorted(
            dag
            for dag, own in tags.items()
            if {TAG, purpose} <= own and dag not in {f"{tag}_{purpose}" for tag in own}
        )

    return answer_of(ask, [])


def faulty(federation: str) -> str:
    """The faults of a federation's file, where its DAG says so; empty for a valid file.

    Args:
        federation: The federation's name.
    """

    def ask(session: Any) -> str:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import DagTag, SerializedDagModel

        dag = f"{federation}_train"
        query = select(DagTag.name).where(DagTag.dag_id == dag, DagTag.name == INVALID)
        if session.scalar(query) is None:
            return ""
        serialised = SerializedDagModel.get(dag, session=session)
        words = (
            serialised.data["dag"].get("doc_md")
            if serialised is not None and serialised.data
            else None
        )
        return str(words or "The federation file is faulty.")

    return answer_of(ask, "")


@dataclass(frozen=True)
class Schedule:
    """When Airflow runs a DAG.

    Attributes:
        dag: The DAG's id.
        words: Its timetable, such as a cron expression; empty where only people trigger it.
        paused: Whether Airflow makes no run of it now.
        next_run: When it makes the next one; None where it is paused or has no time of its own.
    """

    dag: str
    words: str
    paused: bool
    next_run: datetime | None


def schedules(dags: Iterable[str]) -> list[Schedule]:
    """When Airflow runs each DAG, by the DAG's id.

    Args:
        dags: Ids of the DAGs.
    """

    def ask(session: Any) -> list[Schedule]:
        from sqlalchemy import select

        from opboost_ops.orchestration.pages.airflow_tables import DagModel as Row

        query = (
            select(Row.dag_id, Row.timetable_summary, Row.is_paused, Row.next_dagrun_create_after)
            .where(Row.dag_id.in_(list(dags)), Row.is_stale.is_(False))
            .order_by(Row.dag_id)
        )
        return [
            Schedule(
                str(dag),
                "" if words in (None, _BY_HAND) else str(words),
                bool(paused),
                None if paused else utc(at),
            )
            for dag, words, paused, at in session.execute(query)
        ]

    return answer_of(ask, [])
