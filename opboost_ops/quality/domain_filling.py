"""How a column fills its domain, seen at home only, and which scale would spread it better.

Where a few values of the domain hold nearly all rows, order inside them is lost before any noise is
added. Scales are compared by how many values the rows are spread over, exp of the entropy of their
shares; all that are proposed follow from the public bounds alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.config.feature import Edges, Feature
from opboost_ops.domain import Domain, DomainMap

#: Fewer values than this share of the domain hold nearly all rows.
_FEW = 0.35

#: Nearly all rows.
_NEARLY = 0.95

#: By which factor another scale must spread the rows over more values to be proposed.
_BETTER = 1.3

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Filling:
    """How many rows each value of the domain has.

    Attributes:
        feature: The column's name.
        scale: Its declared scale, as in the federation file.
        counts: How many rows have each value of the domain.
        few: Whether few values hold nearly all rows, although the column has more.
        better: A scale that spreads the rows better, as in the federation file; empty if none.
    """

    feature: str
    scale: str
    counts: tuple[int, ...]
    few: bool
    better: str

    @property
    def holding(self) -> int:
        """How many values hold 95 % of the rows together, at least."""
        return _holding(np.asarray(self.counts))

    @property
    def histogram(self) -> str:
        """A picture of at most 20 characters, from the lowest value to the highest."""
        parts = np.array_split(np.asarray(self.counts, dtype=np.float64), min(20, len(self.counts)))
        heights = np.array([part.sum() for part in parts])
        top = heights.max(initial=0) or 1
        # A bar stands for whatever is not empty.
        return "".join(_BARS[int(np.ceil(height / top * 8))] for height in heights)

    @property
    def warning(self) -> str:
        """The problem and what to write instead; empty if there is none."""
        if not self.few:
            return ""
        rows = sum(self.counts) or 1
        top = sorted(self.counts, reverse=True)[: self.holding]
        fix = (
            f"Declare scale: {self.better}."
            if self.better
            else "Declare narrower bounds, or scale: {edges: [...]}, from public facts."
        )
        return (
            f"{self.feature}: {self.holding} of {len(self.counts)} values hold "
            f"{100 * sum(top) / rows:.3g} % of the rows (scale {self.scale}); a model learns "
            f"little from it. {fix}"
        )


def filling(name: str, values: np.ndarray, feature: Feature, domain: Domain) -> Filling:
    """How a numeric or ordinal column fills its domain.

    Args:
        name: The column's name.
        values: Numbers, float64, shape (n,); missing ones are left out.
        feature: Its declaration.
        domain: The federation's.
    """
    present, domain = values[np.isfinite(values)], feature.domain_in(domain)
    counts = _counts(present, feature.domain_map(domain))
    # Of as many different values as a domain may have only whether they are few matters.
    different = len(np.unique(present[:100_000]))
    few = (
        feature.type == "numeric"
        and _holding(counts) <= _FEW * min(domain.size, different)
        and different > 2
    )
    better = ""
    if few and feature.bounds is not None:
        spread = {text: _spread(_counts(present, on)) for text, on in _scales(feature, domain)}
        best = max(spread, key=lambda text: spread[text])
        better = best if spread[best] >= _BETTER * _spread(counts) else ""
    return Filling(name, _words(feature), tuple(int(count) for count in counts), few, better)


def _scales(feature: Feature, domain: Domain) -> list[tuple[str, DomainMap]]:
    assert feature.bounds is not None
    maps = [(scale, DomainMap(domain, feature.bounds, scale)) for scale in ("linear", "log1p")]
    lower, upper = feature.bounds
    if 0 < lower < upper:
        # Each a constant factor above the one before it.
        edges = [float(f"{edge:.4g}") for edge in np.geomspace(lower, upper, domain.size + 1)[1:-1]]
        rising = sorted({edge for edge in edges if lower < edge < upper})
        if rising and domain.size <= 64:
            listed = ", ".join(f"{edge:g}" for edge in rising)
            on = DomainMap(domain, feature.bounds, "edges", tuple(rising))
            maps.append((f"{{edges: [{listed}]}}", on))
    return maps


def _counts(values: np.ndarray, on: DomainMap) -> np.ndarray:
    return np.bincount(on.encode(values) - on.domain.lower, minlength=on.domain.size)


def _holding(counts: Sequence[int] | np.ndarray) -> int:
    falling = np.sort(np.asarray(counts))[::-1]
    return int(np.searchsorted(np.cumsum(falling), _NEARLY * falling.sum())) + 1


def _spread(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _words(feature: Feature) -> str:
    return "edges" if isinstance(feature.scale, Edges) else feature.scale
