"""Schedules of runs: future times only, without catching up on missed ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable

#: Delay after which a scheduled run is skipped, and a requested action expires.
LATE = timedelta(hours=1)

#: A first time within the last minute counts as now: Airflow may parse the file again just before
#: it creates the run, and would otherwise wait for the next time.
_NOW = timedelta(minutes=1)


def at(cron: str) -> CronTriggerTimetable:
    """Return the timetable of a cron expression, in UTC.

    The DAG must have no start date. With one, Airflow would immediately create a run for the last
    past time, which would be a release that nobody has scheduled.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=_NOW)


def type_of(dag_run: Any) -> str:
    """Return Airflow's type of a run, such as ``manual`` if a person triggered it."""
    return str(getattr(dag_run.run_type, "value", dag_run.run_type))


def missed(dag_run: Any) -> str:
    """Return why a scheduled run is skipped: it could not begin near its scheduled time.

    After downtime, Airflow creates the run of the last past time as soon as it can. A run that a
    person has cleared always begins.

    Args:
        dag_run: The run, from a task's context.

    Returns:
        The reason; empty if the run is on time or was not scheduled.
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
        f"it was due at {due} UTC, Airflow could start it at {late} UTC, and missed times are not "
        "caught up. Trigger the DAG, or clear this task, to run it now"
    )
