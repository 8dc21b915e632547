"""The DAG that looks at the parties' tables, and the assets that it emits."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Asset, task

from opboost_ops.config.federation import Federation
from opboost_ops.orchestration import tasks
from opboost_ops.orchestration.pools import TAG

_START = datetime(2026, 1, 1, tzinfo=UTC)


def table_assets(federation: Federation) -> dict[str, Asset]:
    """The asset of each party's table; a new version is emitted when the table has changed."""
    return {
        party: Asset(
            name=f"{federation.name}_{party}_table",
            uri=f"x-opboost://{federation.name}/{party}/table",
        )
        for party in federation.parties
    }


def tables_dag(federation: Federation, retries: dict[str, Any]) -> DAG:
    """A short DAG with a task a party, on the party's own workers.

    Args:
        federation: What its file says; ``schedule.on_tables`` is set.
        retries: Default arguments of its tasks.
    """
    with DAG(
        dag_id=f"{federation.name}_tables",
        description=f"Looks whether the tables of {federation.name} have changed.",
        doc_md=(
            "Each party's task looks at its own table. If its keyed fingerprint has changed, the "
            "task succeeds and emits the table's asset; otherwise it is skipped. When all tables "
            f"have a new version, `{federation.name}_train` runs."
        ),
        schedule=federation.schedule.on_tables,
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "tables", federation.name, *federation.parties],
        default_args=retries,
    ) as dag:
        for party, asset in table_assets(federation).items():
            spec = federation.parties[party]
            task(
                task_id=f"{party}_table",
                doc_md="Compares the keyed fingerprint of the party's table with the last one.",
                owner=party,
                queue=spec.queue,
                pool=spec.pool,
                outlets=[asset],
                multiple_outputs=False,
            )(tasks.look_at_table)(party, federation.name)
    return dag
