"""The integers on which everything is released, and the public maps onto them."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opboost_ops.errors import ConfigError, ContractError

#: Most values of a domain on which anything may be released: up to here the channel, its sampling
#: table and its loss curve take seconds together (docs/scaling.md has the figures).
MOST_VALUES = 1024

#: Most values of a domain that is only searched by halves, as in horizontal learning: 20 rounds.
MOST_SEARCHED = 2**20

#: How far from zero a domain may lie.
_FARTHEST = 2**31


@dataclass(frozen=True)
class Domain:
    """The integers lower..upper, the papers' [L, R].

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
        """|D| = R - L + 1."""
        return self.upper - self.lower + 1

    def excess(self, most: int = MOST_VALUES) -> str:
        """The limit that it exceeds, in words; empty if none.

        Args:
            most: Most values that it may have.
        """
        if self.size > most:
            return f"has {self.size} values, more than the {most} that are allowed"
        if max(-self.lower, self.upper) > _FARTHEST:
            return f"lies further than {_FARTHEST} from zero"
        return ""

    def values(self) -> np.ndarray:
        """All its integers, int64, shape (|D|,)."""
        return np.arange(self.lower, self.upper + 1, dtype=np.int64)


@dataclass(frozen=True)
class DomainMap:
    """How a feature's numbers are laid on a domain; all of it is declared, nothing is measured.

    Attributes:
        domain: The target.
        bounds: Public lower and upper bound, in the feature's unit; values outside are clipped.
        scale: ``linear``, ``log1p`` (of the distance from the lower bound) or ``edges``.
        edges: Inner edges for ``edges``: a value's cell is one more than the edges below it.
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
        """Map numbers onto the domain: L + ceil((x - lower) / (upper - lower) * (R - L)).

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
        # Multiplied first: whole numbers, one for each value of the domain, stay whole.
        cells = np.ceil(above * width / span).clip(0, width).astype(np.int64)
        return np.asarray(self.domain.lower + cells)

    def boundary(self, value: int) -> float:
        """Where in the feature's own unit a value of the domain begins.

        Args:
            value: A domain integer above the lower bound.

        Returns:
            The number above which everything is encoded as ``value`` or more.
        """
        lower, upper = self.bounds
        if self.scale == "edges":
            edges = self.edges or ()
            place = value - self.domain.lower - 1
            return edges[place] if place < len(edges) else upper
        cells, width = value - 1 - self.domain.lower, self.domain.size - 1
        if self.scale == "log1p":
            return lower + float(np.expm1(cells * np.log1p(upper - lower) / width))
        return lower + cells * (upper - lower) / width

    def boundaries(self) -> tuple[float, ...]:
        """All places where one value of the domain ends and the next begins, rising.

        A value at most a boundary lies below it.
        """
        if self.scale == "edges":
            return tuple(self.edges or ())
        return tuple(
            self.boundary(value) for value in range(self.domain.lower + 1, self.domain.upper + 1)
        )

    def highest(self, value: int) -> float:
        """The greatest number that is encoded as a value of the domain, or as less.

        To the bit, by bisection over floats: `boundary` is off by a rounding now and then.

        Args:
            value: A domain integer below the upper bound; that bound itself gives the feature's.
        """
        return greatest(lambda x: int(self.encode(np.array([x]))[0]) <= value, *self.bounds)

    def digest(self) -> bytes:
        """Sha256 of the map: a changed map is another release, with other noise."""
        facts = {
            "domain": [self.domain.lower, self.domain.upper],
            "bounds": [float(b).hex() for b in self.bounds],
            "scale": self.scale,
            "edges": [float(e).hex() for e in self.edges or ()],
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()


def greatest(fits: Callable[[float], bool], below: float, above: float) -> float:
    """The greatest float of an interval that fits, by bisection.

    Args:
        fits: Whether a float does; so do all below one that does.
        below: The lower end, which fits.
        above: The upper end.
    """
    if fits(above):
        return above
    while (middle := below + (above - below) / 2) not in (below, above):
        below, above = (middle, above) if fits(middle) else (below, middle)
    return below


def quantile_edges(values: np.ndarray, cells: int) -> tuple[float, ...]:
    """Inner edges of cells that hold equal shares of a sample, as far as its ties allow.

    Args:
        values: Finite numbers of a public sample, shape (n,). Edges of private values carry no
            guarantee: moving one value can move many rows' cells.
        cells: How many.

    Returns:
        At most ``cells - 1`` strictly increasing edges; a value equal to an edge lies below it.

    Raises:
        ConfigError: The sample has fewer than two different values, or ``cells`` is below 2.
    """
    if cells < 2 or len(values) == 0 or values.min() == values.max():
        raise ConfigError(
            "Quantile edges need at least two cells and two different values.",
            "Give a larger sample.",
        )
    shares = np.arange(1, cells) / cells
    edges = np.unique(np.quantile(np.asarray(values, dtype=np.float64), shares, method="lower"))
    edges = edges[edges < values.max()]
    if not len(edges):
        # The greatest value fills all cells but one: it has one of its own.
        edges = values[values < values.max()].max(keepdims=True)
    return tuple(float(edge) for edge in edges)
