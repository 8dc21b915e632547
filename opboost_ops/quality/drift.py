"""How far a party's table has moved since training; computed, kept and read at home."""

import time
from collections.abc import Mapping

import numpy as np
import polars as pl
from scipy.stats import chi2

from opboost_ops.config.federation import Feature
from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain
from opboost_ops.quality.report import Report, Result

#: Most bins of a numeric feature, and bins of one whose bounds nobody declared.
_MOST, _UNDECLARED = 20, 10

#: Of two samples of one law, one in a thousand is further apart than this counts as chance.
_CHANCE = 0.999


class Histogram(Record):
    """One feature of one table.

    Attributes:
        edges: Inner edges of the bins of a numeric feature, in its own unit.
        categories: The bins of any other feature; what is none of them is counted as missing.
        counts: Rows by bin; missing values come last.
        clipped: Rows outside the declared bounds.
    """

    edges: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...]
    clipped: int

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return sum(self.counts)


class Profile(Record):
    """A table's histograms by feature: what a later table is compared with."""

    features: Mapping[str, Histogram]


def profile(table: pl.DataFrame, features: Mapping[str, Feature], domain: Domain) -> Profile:
    """Histograms of a table.

    Bins of a protected feature are the cells of its domain, neighbours joined where there are
    many; of the label holder's own numbers, its deciles.

    Args:
        table: Raw columns.
        features: Their declarations.
        domain: Of protected features.
    """
    found = {}
    for name, feature in features.items():
        column = table.get_column(name)
        bins = _bins(column, feature, domain)
        found[name] = _histogram(column, feature, bins)
    return Profile(features=found)


def compare(
    reference: Profile, table: pl.DataFrame, features: Mapping[str, Feature], most: float
) -> Report:
    """Compare a table with an earlier one, feature by feature.

    The population stability index is the sum over bins of (q - p) ln(q / p), for shares p then
    and q now, with half a row added to each bin. For two samples of one law, of n and m rows on
    k bins, it is about (1/n + 1/m) times a chi-squared number with k - 1 degrees of freedom
    (Yurdakul, "Statistical properties of population stability index", 2018): what is within
    chance is no drift.

    Args:
        reference: Of the earlier table.
        table: Raw columns of the later one.
        features: Their declarations; one that the reference does not know is passed over.
        most: The greatest index that is no drift.
    """
    begin = time.perf_counter()
    results = []
    for name, feature in features.items():
        then = reference.features.get(name)
        if then is None:
            continue
        now = _histogram(table.get_column(name), feature, then)
        index, chance = _index(np.array(then.counts), np.array(now.counts))
        told = {
            "index": round(index, 4),
            "most": most,
            "chance": round(chance, 4),
            "missing": _share(now.counts[-1], now),
            "missing_then": _share(then.counts[-1], then),
            "clipped": _share(now.clipped, now),
            "clipped_then": _share(then.clipped, then),
        }
        results.append(
            Result(
                expectation="population_stability_index",
                column=name,
                indicator="",
                arguments=told,
                success=index <= max(most, chance),
                evaluated=True,
                rows=now.rows,
                unexpected=None,
                missing=now.counts[-1],
            )
        )
    return Report("drift", tuple(results), time.perf_counter() - begin)


def _index(then: np.ndarray, now: np.ndarray) -> tuple[float, float]:
    p = (then + 0.5) / (then.sum() + 0.5 * len(then))
    q = (now + 0.5) / (now.sum() + 0.5 * len(now))
    index = float(((q - p) * np.log(q / p)).sum())
    scale = 1 / max(then.sum(), 1) + 1 / max(now.sum(), 1)
    return index, float(scale * chi2.ppf(_CHANCE, len(then) - 1))


def _share(count: int, histogram: Histogram) -> float:
    return round(count / max(histogram.rows, 1), 4)


def _bins(column: pl.Series, feature: Feature, domain: Domain) -> Histogram:
    """Bins without counts."""
    if feature.type != "numeric":
        text = column.cast(pl.String)
        found = feature.categories or tuple(text.drop_nulls().unique().sort().to_list())
        return Histogram(categories=tuple(found), counts=(), clipped=0)
    values = _numbers(column)
    values = values[np.isfinite(values)]
    if feature.bounds is None:
        shares = np.arange(1, _UNDECLARED) / _UNDECLARED
        edges = np.unique(np.quantile(values, shares, method="lower")) if len(values) else values
    else:
        mapping = feature.domain_map(domain)
        steps = np.arange(domain.lower + 1, domain.upper + 1)
        if len(steps) >= _MOST:
            # Cells with about equal shares of the rows: many cells would drown in chance.
            encoded = mapping.encode(values) if len(values) else steps
            shares = np.arange(1, _MOST) / _MOST
            steps = np.unique(np.quantile(encoded, shares, method="lower")) + 1
            steps = steps[steps <= domain.upper]
        edges = np.unique([mapping.boundary(int(step)) for step in steps])
    return Histogram(edges=tuple(float(edge) for edge in edges), counts=(), clipped=0)


def _histogram(column: pl.Series, feature: Feature, bins: Histogram) -> Histogram:
    if bins.categories:
        order = {category: i for i, category in enumerate(bins.categories)}
        codes = column.cast(pl.String).replace_strict(order, default=None, return_dtype=pl.Int64)
        found = codes.fill_null(len(order)).to_numpy()
        counts = np.bincount(found, minlength=len(order) + 1)
        return bins.model_copy(update={"counts": tuple(counts.tolist()), "clipped": 0})
    values = _numbers(column)
    present = np.isfinite(values)
    cells = np.searchsorted(np.asarray(bins.edges), values[present], side="left")
    counts = np.bincount(cells, minlength=len(bins.edges) + 1)
    clipped = 0
    if feature.bounds is not None:
        lower, upper = feature.bounds
        clipped = int(((values[present] < lower) | (values[present] > upper)).sum())
    with_missing = (*counts.tolist(), int((~present).sum()))
    return bins.model_copy(update={"counts": with_missing, "clipped": clipped})


def _numbers(column: pl.Series) -> np.ndarray:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
