"""How a column fills its domain, and which scale would spread it better; for its party only.

If a few values of the domain hold nearly all rows, the order within them is lost before any noise
is added. Scales are compared by the effective number of values, exp of the entropy of the rows'
shares. All proposed scales depend on the public bounds alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.config.feature import Edges, Feature
from opboost_ops.domain import Domain, DomainMap

#: Maximum share of the domain's values that counts as few values.
_FEW = 0.35

#: Share of rows that counts as nearly all.
_NEARLY = 0.95

#: Minimum factor by which a proposed scale must increase the effective number of values.
_BETTER = 1.3

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Filling:
    """The distribution of a column's rows over its domain.

    Attributes:
        feature: Name of the column.
        scale: Its declared scale, as in the federation file.
        counts: Number of rows by domain value.
        few: True if few domain values hold nearly all rows, although the column has more values.
        better: A scale that spreads the rows better, as in the federation file; empty if none.
    """

    feature: str
    scale: str
    counts: tuple[int, ...]
    few: bool
    better: str

    @property
    def holding(self) -> int:
        """Return the minimum number of values that hold 95% of the rows together."""
        return _holding(np.asarray(self.counts))

    @property
    def histogram(self) -> str:
        """Return a histogram of at most 20 characters, from the lowest value to the highest."""
        parts = np.array_split(np.asarray(self.counts, dtype=np.float64), min(20, len(self.counts)))
        heights = np.array([part.sum() for part in parts])
        top = heights.max(initial=0) or 1
        # Round up, so that every non-empty part shows a bar.
        return "".join(_BARS[int(np.ceil(height / top * 8))] for height in heights)

    @property
    def warning(self) -> str:
        """Return the problem and its fix; empty if there is none."""
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
    """Return how a numeric or ordinal column fills its domain.

    Args:
        name: Name of the column.
        values: Numbers, float64, shape (n,); missing ones are ignored.
        feature: The feature's declaration.
        domain: The federation's domain.
    """
    present, domain = values[np.isfinite(values)], feature.domain_in(domain)
    counts = _counts(present, feature.domain_map(domain))
    # A sample is enough to see whether the column has only a few distinct values.
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
        # Logarithmic bins: each edge is a constant factor above the one before.
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
