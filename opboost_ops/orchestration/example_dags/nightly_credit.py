"""A federation between two tasks of your own: refresh, train, report."""

import os
from datetime import datetime

from airflow.sdk import DAG, Param, task

from opboost_ops.orchestration.dags.task_group import FederationTaskGroup


@task
def refresh_tables() -> None:
    """Bring the parties' tables up to date."""


@task
def tell_people(version: str | None = None) -> str:
    """Name the version that was trained."""
    return f"credit has version {version}"


with DAG(
    "nightly_credit",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={"trees": Param(None, type=["null", "integer"])},
):
    federation = FederationTaskGroup(
        os.environ["CREDIT_FEDERATION"], form={"trees": "{{ params.trees }}"}, group_id="credit"
    )
    registered = "{{ ti.xcom_pull('credit.credit_publish.register')['version'] }}"
    refresh_tables() >> federation >> tell_people(registered)
