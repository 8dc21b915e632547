"""The cost of a differentially private model."""

from dataclasses import dataclass
from typing import Literal

from opboost_ops.privacy.ledger.renyi import RenyiCurve


@dataclass(frozen=True)
class ModelCharge:
    """A differentially private model that was drawn.

    Attributes:
        epsilon: What it costs a row that is added or removed.
        name: Of the draw; another draw is another release.
        rows: How many rows it was trained on, or evaluated on.
        what: The trees, or metrics with noise.
        curve: Of a model that has (epsilon, delta); epsilon is then the curve's at its delta.
        replaced: The curve of a row that is replaced.
    """

    epsilon: float
    name: str
    rows: int
    what: Literal["model", "metrics"] = "model"
    curve: RenyiCurve | None = None
    replaced: RenyiCurve | None = None
