"""A named table, split between parties: what a loader gives."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

ID = "id"
Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Dataset:
    """Tables of all parties of one federation.

    Attributes:
        name: Its name, also the federation's.
        task: What is learnt.
        tables: Table by party, each with the ID column ``id``.
        label_holder: Who holds the label.
        label: The ``label`` entry of the federation file.
        features: ``features`` entries by party, without uuid and mechanism.
        holdout: ``training.holdout``.
        epsilon: Default epsilon of its protected features.
        domain: Default bounds L and R.
        new_rows: Table by party of people to score, without the label; empty if there are none.
    """

    name: str
    task: Task
    tables: Mapping[str, pl.DataFrame]
    label_holder: str
    label: Mapping[str, Any]
    features: Mapping[str, Mapping[str, Mapping[str, Any]]]
    holdout: float
    epsilon: float
    domain: tuple[int, int]
    new_rows: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def table_digest(table: pl.DataFrame) -> str:
    """Sha256 of a parsed table: names and values, whatever file they were read from."""
    return hashlib.sha256(table.write_csv(float_precision=6).encode()).hexdigest()


def row_ids(prefix: str, rows: int) -> pl.Series:
    """IDs for a table that has none: unique strings, one per row."""
    return pl.Series(ID, [f"{prefix}-{i:06d}" for i in range(rows)])
