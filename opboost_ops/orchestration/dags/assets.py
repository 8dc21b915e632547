"""The assets by which one DAG of a federation starts another."""

from collections.abc import Sequence

from airflow.sdk import Asset

from opboost_ops.config.federation import Federation, Purpose
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


def champion_asset(federation: Federation) -> Asset:
    """The asset of the model in use; a new version is emitted when another one is promoted."""
    return _own(federation, "champion")


def scores_asset(federation: Federation) -> Asset:
    """The asset of the scores of new rows, for DAGs that use them."""
    return _own(federation, "scores")


def _own(federation: Federation, what: str) -> Asset:
    return Asset(name=f"{federation.name}_{what}", uri=f"x-opboost://{federation.name}/{what}")
