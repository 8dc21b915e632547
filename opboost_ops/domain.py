"""Integer domains of released values, and the public maps from raw numbers onto them."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opboost_ops.errors import ConfigError, ContractError

#: Largest domain on which values may be released. Up to this size the channel, its sampling table
#: and its loss curve take seconds together (docs/scaling.md has the figures).
MAX_VALUES = 1024

#: Largest domain for bisection, as in horizontal learning: 20 rounds.
MAX_BISECTED_VALUES = 2**20

#: Largest absolute value in a domain.
_MAX_ABSOLUTE = 2**31


@dataclass(frozen=True)
class Domain:
    """The integers from ``lower`` to ``upper``, inclusive: [L, R] in the papers.

    Raises:
        ConfigError: ``lower`` is not less than ``upper``.
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if self.lower >= self.upper:
            raise ConfigError("A domain's lower bound must be less than its upper bound.")

    @property
    def size(self) -> int:
        """The number of values, |D| = R - L + 1."""
        return self.upper - self.lower + 1

    def size_problem(self, max_values: int = MAX_VALUES) -> str:
        """Return the limit that the domain exceeds as a verb phrase; empty if none."""
        if self.size > max_values:
            return f"has {self.size} values, more than the {max_values} that are allowed"
        if max(-self.lower, self.upper) > _MAX_ABSOLUTE:
            return f"contains values beyond ±{_MAX_ABSOLUTE}"
        return ""

    def values(self) -> np.ndarray:
        """Return all integers of the domain, int64, shape (|D|,)."""
        return np.arange(self.lower, self.upper + 1, dtype=np.int64)


@dataclass(frozen=True)
class DomainMap:
    """The map from a feature's numbers to a domain, declared in full and never fitted to data.

    Attributes:
        domain: The target domain.
        bounds: Public lower and upper bound, in the feature's unit; values outside are clipped.
        scale: ``linear``, ``log1p`` (of the distance from the lower bound) or ``edges``.
        edges: Inner cell edges for ``edges``: a value's cell index is the number of edges below it.
    """

    domain: Domain
    bounds: tuple[float, float]
    scale: str = "linear"
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.bounds[0] < self.bounds[1]:
            raise ConfigError("A feature's lower bound must be less than its upper bound.")
        if self.scale not in ("linear", "log1p", "edges"):
            raise ConfigError(f"{self.scale} is not a scale: linear, log1p or edges.")
        if self.scale == "edges" and not 0 < len(self.edges or ()) < self.domain.size:
            raise ConfigError(
                f"A domain of {self.domain.size} values takes 1 to {self.domain.size - 1} edges."
            )

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Map numbers to the domain: L + ceil((x - lower) / (upper - lower) * (R - L)).

        Args:
            values: float64, shape (n,).

        Returns:
            Domain integers, int64, shape (n,).

        Raises:
            ContractError: A value is NaN or infinite.
        """
        values = np.asarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ContractError("Missing or infinite values cannot be mapped to the domain.")
        lower, upper = self.bounds
        inside = np.clip(values, lower, upper)
        if self.scale == "edges":
            cells = np.searchsorted(np.asarray(self.edges), inside, side="left")
            return np.asarray(self.domain.lower + cells, dtype=np.int64)
        above, span, width = inside - lower, upper - lower, self.domain.size - 1
        if self.scale == "log1p":
            above, span = np.log1p(above), np.log1p(span)
        # Multiply before dividing, so that one integer per domain value maps without rounding.
        cells = np.ceil(above * width / span).clip(0, width).astype(np.int64)
        return np.asarray(self.domain.lower + cells)

    def boundary(self, value: int) -> float:
        """Return the number above which everything is encoded as ``value`` or more.

        Args:
            value: A domain integer above the lower bound.

        Returns:
            The boundary, in the feature's unit.
        """
        lower, upper = self.bounds
        if self.scale == "edges":
            edges = self.edges or ()
            index = value - self.domain.lower - 1
            return edges[index] if index < len(edges) else upper
        cells, width = value - 1 - self.domain.lower, self.domain.size - 1
        if self.scale == "log1p":
            return lower + float(np.expm1(cells * np.log1p(upper - lower) / width))
        return lower + cells * (upper - lower) / width

    def boundaries(self) -> tuple[float, ...]:
        """Return the boundaries between neighbouring domain values, in ascending order.

        A number equal to a boundary is encoded as the lower of the two values.
        """
        if self.scale == "edges":
            return tuple(self.edges or ())
        return tuple(
            self.boundary(value) for value in range(self.domain.lower + 1, self.domain.upper + 1)
        )

    def highest(self, value: int) -> float:
        """Return the greatest float that is encoded as ``value`` or less.

        Exact, by bisection over floats, whereas `boundary` may have a rounding error.

        Args:
            value: A domain integer; the domain's upper bound returns the feature's upper bound.
        """
        return greatest(lambda x: int(self.encode(np.array([x]))[0]) <= value, *self.bounds)

    def digest(self) -> bytes:
        """Return the map's SHA-256: a changed map is a new release, with fresh noise."""
        content = {
            "domain": [self.domain.lower, self.domain.upper],
            "bounds": [float(b).hex() for b in self.bounds],
            "scale": self.scale,
            "edges": [float(e).hex() for e in self.edges or ()],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def greatest(fits: Callable[[float], bool], below: float, above: float) -> float:
    """Return the greatest float in an interval that satisfies a predicate, by bisection.

    Args:
        fits: The predicate; true up to some float, and false above it.
        below: Lower end of the interval, which must satisfy the predicate.
        above: Upper end of the interval.
    """
    if fits(above):
        return above
    while (middle := below + (above - below) / 2) not in (below, above):
        below, above = (middle, above) if fits(middle) else (below, middle)
    return below


def quantile_edges(values: np.ndarray, cells: int) -> tuple[float, ...]:
    """Return the inner edges of cells with equal shares of a sample, as far as ties allow.

    Args:
        values: Finite numbers of a public sample, shape (n,). Edges fitted to private values have
            no privacy guarantee: moving one value can move many rows.
        cells: Number of cells, at least 2.

    Returns:
        At most ``cells - 1`` strictly increasing edges; a value equal to an edge lies below it.

    Raises:
        ConfigError: The sample has fewer than two different values, or ``cells`` is below 2.
    """
    if cells < 2 or len(values) == 0 or values.min() == values.max():
        raise ConfigError(
            "Quantile edges need at least two cells and two distinct values.",
            "Provide a larger sample.",
        )
    shares = np.arange(1, cells) / cells
    edges = np.unique(np.quantile(np.asarray(values, dtype=np.float64), shares, method="lower"))
    edges = edges[edges < values.max()]
    if not len(edges):
        # The greatest value makes up all quantiles: give it a cell of its own.
        edges = values[values < values.max()].max(keepdims=True)
    return tuple(float(edge) for edge in edges)
