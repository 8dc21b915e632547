"""Releases of a party, and their cost."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from opboost_ops.config.loading import load_party
from opboost_ops.privacy.ledger.model_account import ModelAccount
from opboost_ops.reports.ledger import ledger_of


@dataclass(frozen=True, repr=False)
class Statement:
    """A party's releases, and their cost.

    Attributes:
        party: Whose.
        columns: A row for each released feature and receiver: ``feature``, raw ``column``,
            ``receiver``, days of its ``releases``, ``loss`` of one, ``spent`` and ``budget`` of
            the raw column, and ``since`` when its values stand.
        exact: A row for each kind of release that has no epsilon: ``receiver``, ``kind``,
            ``times`` and what it ``discloses``.
        models: What all private models have cost together.
    """

    party: str
    columns: pl.DataFrame
    exact: pl.DataFrame
    models: ModelAccount

    def __repr__(self) -> str:
        return f"Statement({self.party}: {self.columns.height} columns charged)"


def ledger(site: str | Path) -> Statement:
    """Read what a party has released from its ledger.

    Args:
        site: Folder of the party's ``site.yaml``.

    Raises:
        ConfigError: The site or its database cannot be read.
    """
    declared, policy = load_party(Path(site) / "site.yaml")
    view = ledger_of(declared, policy)
    content = view.document()
    columns, exact = (
        pl.DataFrame(content[name], infer_schema_length=None) for name in ("columns", "exact")
    )
    return Statement(declared.party, columns, exact, view.models)
