"""Assets by which DAGs start each other, and the DAG that emits one for each changed table."""

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
    federation: Federation, purpose: Purpose, here: Sequence[str] | None = None
) -> dict[str, Asset]:
    """The asset of each party's table; a new version is emitted when the table has changed.

    Args:
        federation: What its file says.
        purpose: The training tables, or those of new rows, of the parties that have a part in it.
        here: The parties of this Airflow, whose tables alone it sees; all when absent.
    """
    what = "table" if purpose == "train" else "new_rows"
    return {
        party: Asset(
            name=f"{federation.name}_{party}_{what}",
            uri=f"x-opboost://{federation.name}/{party}/{what}",
        )
        for party in (federation.parties if here is None else here)
        if stages_of(federation, purpose, party)
    }


_LOOKS: dict[Purpose, tuple[str, str]] = {
    "train": ("table", "Compares the keyed fingerprint of the party's table with the last one."),
    "score": ("new_rows", "The same for its table of new rows; skipped where there is none."),
}


def tables_dag(
    federation: Federation, defaults: dict[str, Any], here: Sequence[str] | None = None
) -> DAG:
    """A short DAG with two tasks a party, on the party's own workers.

    Args:
        federation: What its file says; ``schedule.on_tables`` is set.
        defaults: Default arguments of its tasks.
        here: The parties of this Airflow, whose tables alone it looks at; all when absent.
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
        tags=[TAG, "tables", federation.name, *(federation.parties if here is None else here)],
        default_args=defaults,
    ) as dag:
        for purpose, (what, words) in _LOOKS.items():
            for party, asset in table_assets(federation, purpose, here).items():
                PartyOperator(
                    task_id=f"{party}_{what}",
                    doc_md=words,
                    outlets=[asset],
                    python_callable=tasks.look_at_table,
                    op_kwargs={
                        "party": party,
                        "federation": federation.name,
                        "purpose": purpose,
                    },
                    **common_of(federation, party),
                )
    return dag
