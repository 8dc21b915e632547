"""What a publication is charged for, beyond its artifacts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

import numpy as np

from opboost_ops.domain import Domain


@dataclass(frozen=True)
class CellCharge:
    """Cells whose values are about to be released.

    Attributes:
        column: The column's UUID.
        context: Digest of what keys its noise.
        people: Keyed hashes of the persons, uint64, rising, shape (n,).
        values: Their domain values, integers, shape (n,).
        domain: Where they lie.
    """

    column: UUID
    context: bytes
    people: np.ndarray
    values: np.ndarray
    domain: Domain


@dataclass(frozen=True)
class ModelCharge:
    """A differentially private model that was drawn.

    Attributes:
        epsilon: What it costs a row that is added or removed.
        name: Of the draw; another draw is another release.
        rows: How many rows it was trained on, or evaluated on.
        what: The trees, or metrics with noise.
    """

    epsilon: float
    name: str
    rows: int
    what: Literal["model", "metrics"] = "model"


@dataclass(frozen=True)
class Charges:
    """All that a stage's publication is charged for.

    Attributes:
        keys: Name of the noise key, by charge; see `Release.cells`.
        draws: Name of what was drawn, by charge; see `Release.draws`.
        edges: Partition edges that are disclosed exactly, by charge, in the feature's unit.
        cells: What each cell releases.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    cells: tuple[CellCharge, ...] = ()
