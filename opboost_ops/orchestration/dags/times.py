"""When runs begin by themselves: at times that lie ahead, and never for one that was missed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable

#: How late a run may begin and still be the one of its time, or a person's request be fulfilled.
LATE = timedelta(hours=1)

#: A first time that is past by no more is now: Airflow may read the file again just before it
#: makes the run, and would otherwise wait for the next one.
_NOW = timedelta(minutes=1)


def at(cron: str) -> CronTriggerTimetable:
    """The timetable of a cron expression, in UTC.

    Its DAG must have no start date: with one, Airflow makes the first run at once, for the last
    time that is past. Such a run would be a release that nobody has scheduled.

    Args:
        cron: The expression.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=_NOW)


def type_of(dag_run: Any) -> str:
    """Airflow's word for what has started a run: ``manual`` where a person has.

    Args:
        dag_run: As a task gets it.
    """
    return str(getattr(dag_run.run_type, "value", dag_run.run_type))


def missed(dag_run: Any) -> str:
    """Why a run does not begin: its time was missed.

    While nothing runs, Airflow keeps the last time that went by, and makes its run as soon as it
    can. A run that a person has cleared is wanted, however late it is.

    Args:
        dag_run: As a task gets it.

    Returns:
        The reason; empty if the run is in time, or was not made by a schedule.
    """
    if type_of(dag_run) != "scheduled":
        return ""
    if dag_run.clear_number:
        return ""
    began = dag_run.start_date or datetime.now(UTC)
    if began - dag_run.run_after <= LATE:
        return ""
    due, late = (f"{moment:%Y-%m-%d %H:%M}" for moment in (dag_run.run_after, began))
    return (
        f"it was due at {due} UTC, Airflow could begin it at {late} UTC, and a missed time is not "
        "made up for. Trigger the DAG, or clear this task, to run it now"
    )
