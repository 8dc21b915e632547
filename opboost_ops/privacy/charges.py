"""What a publication is charged for, beyond its artifacts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from opboost_ops.privacy.renyi import RenyiCurve


@dataclass(frozen=True)
class ModelCharge:
    """A differentially private model that was drawn.

    Attributes:
        epsilon: What it costs a row that is added or removed.
        name: Of the draw; another draw is another release.
        rows: How many rows it was trained on, or evaluated on.
        what: The trees, or metrics with noise.
        curve: Of a model that has (epsilon, delta); epsilon is then the curve's at its delta.
    """

    epsilon: float
    name: str
    rows: int
    what: Literal["model", "metrics"] = "model"
    curve: RenyiCurve | None = None


@dataclass(frozen=True)
class Charges:
    """What a publication's randomised cells were charged for, before.

    Attributes:
        keys: Name of the noise key, by charge; see `Release.cells`.
        draws: Name of the draw, by charge; see `Release.draws`.
        edges: Partition edges that are disclosed exactly, by charge, in the feature's unit.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
