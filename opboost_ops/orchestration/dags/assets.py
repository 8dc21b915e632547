"""Assets that start DAGs, and the DAG that emits one per changed table."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG, Asset

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.dags.groups import common_of
from opboost_ops.orchestration.dags.operators import PartyOperator
from opboost_ops.orchestration.dags.times import at
from opboost_ops.orchestration.pages.airflow import TAG
from opboost_ops.pipeline.phases import stages_of


def table_assets(
    federation: Federation, purpose: Purpose, local_parties: Sequence[str]
) -> dict[str, Asset]:
    """Return the asset of each party's table; it is emitted when the table has changed.

    Args:
        federation: The parsed federation file.
        purpose: ``train`` for training tables, ``score`` for tables of new rows. Parties without
            a stage in such runs have no asset.
        local_parties: The parties of this Airflow, which sees only their tables.
    """
    what = "table" if purpose == "train" else "new_rows"
    return {
        party: Asset(
            name=f"{federation.name}_{party}_{what}",
            uri=f"x-opboost://{federation.name}/{party}/{what}",
        )
        for party in local_parties
        if stages_of(federation, purpose, party)
    }


_TABLE_TASKS: dict[Purpose, tuple[str, str]] = {
    "train": ("table", "Compares the keyed fingerprint of the party's table with the last one."),
    "score": ("new_rows", "Does the same for its table of new rows; skipped if there is none."),
}


def tables_dag(
    federation: Federation, defaults: dict[str, Any], local_parties: Sequence[str]
) -> DAG:
    """Return the DAG that checks the tables, with two tasks per party on its own queue.

    Args:
        federation: The parsed federation file, with ``schedule.on_tables``.
        defaults: Default arguments of its tasks.
        local_parties: The parties of this Airflow.
    """
    on_tables = federation.schedule.on_tables
    with DAG(
        auto_register=False,
        dag_id=f"{federation.name}_tables",
        description=f"Checks whether the tables of {federation.name} have changed.",
        doc_md=(
            "Each party's tasks check its own tables. If the keyed fingerprint of one has "
            "changed, its task succeeds and emits the table's asset; otherwise it is skipped. When "
            f"all training tables have a new version, `{federation.name}_train` runs; when all "
            f"tables of new rows have one, `{federation.name}_score` does."
        ),
        schedule=at(on_tables) if on_tables else None,
        catchup=False,
        max_active_runs=1,
        tags=[TAG, "tables", federation.name, *local_parties],
        default_args=defaults,
    ) as dag:
        for purpose, (what, task_doc) in _TABLE_TASKS.items():
            for party, asset in table_assets(federation, purpose, local_parties).items():
                PartyOperator(
                    task_id=f"{party}_{what}",
                    doc_md=task_doc,
                    outlets=[asset],
                    python_callable=tasks.check_table,
                    op_kwargs={
                        "party": party,
                        "federation": federation.name,
                        "purpose": purpose,
                    },
                    **common_of(federation, party),
                )
    return dag
