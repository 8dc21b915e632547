"""A federated training between the tasks of your own DAG."""

from datetime import datetime
from typing import Any

from airflow.sdk import DAG, task

from opboost_ops.orchestration.dags.task_group import TrainFederation


@task
def tell_people(trained: Any) -> str:
    """Name the version that was trained."""
    return f"version {trained['version']}, champion: {trained['champion']}"


with DAG("train_in_the_middle", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    train = TrainFederation(task_id="train", federation="credit_scoring", form={"trees": 3})
    tell_people(train.output)
