"""Drift of a party's table since training; computed, stored and read at home."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from scipy.special import gammaincinv

from opboost_ops.config.feature import Feature
from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain
from opboost_ops.quality.suites import expectations
from opboost_ops.quality.validation import Report, validate

#: Name of the suite that checks a comparison.
SUITE = "drift"

#: Maximum bins of a numeric feature, and number of bins without declared bounds.
_MOST, _UNDECLARED = 20, 10

#: Values of columns without bounds that are in memory at once, but at least one whole column.
_HELD = 1 << 18

#: Quantile level of the index for two samples of one distribution: up to there it is chance.
_CHANCE = 0.999


class Histogram(Record):
    """Histogram of one feature of one table.

    Attributes:
        edges: Inner edges of the bins of a numeric feature, in its own unit.
        categories: The bins of any other feature; unknown categories count as missing.
        counts: Rows by bin, missing values last.
        clipped: Rows outside the declared bounds.
    """

    edges: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...]
    clipped: int

    @property
    def rows(self) -> int:
        """Return the number of rows of the table."""
        return sum(self.counts)


class Profile(Record):
    """A table's histograms by feature, for comparison with later tables."""

    features: Mapping[str, Histogram]


#: Reads columns of a table, again at each call: at least one block of rows.
Frames = Callable[[Sequence[str]], Iterator[pl.DataFrame]]


def profile(
    table: pl.DataFrame | Frames, features: Mapping[str, Feature], domain: Domain
) -> Profile:
    """Return the histograms of a table.

    The bins of a protected feature are the values of its domain, with neighbours joined if there
    are many; for the label holder's own numbers they are deciles.

    Args:
        table: Raw columns, or a function that reads them block by block.
        features: Declarations by feature.
        domain: Domain of protected features.
    """
    read = _frames(table)
    bins = _domain_bins(read, features, domain)
    declared = {n: each.categories for n, each in features.items() if each.type != "numeric"}
    observed = _categories(read, [name for name, each in declared.items() if not each])
    for name, categories in (declared | observed).items():
        bins[name] = Histogram(categories=categories, counts=(), clipped=0)
    whole = _deciles(read, [name for name in features if name not in bins])
    histograms = {**whole, **counted(read, features, bins).features}
    return Profile(features={name: histograms[name] for name in features})


def _frames(table: pl.DataFrame | Frames) -> Frames:
    if not isinstance(table, pl.DataFrame):
        return table
    return lambda columns: iter([table.select(columns)])


def counted(
    table: pl.DataFrame | Frames, features: Mapping[str, Feature], bins: Mapping[str, Histogram]
) -> Profile:
    """Return a table's histograms in the bins of an earlier one.

    Args:
        table: Raw columns, or a function that reads them block by block.
        features: Declarations by feature.
        bins: Histograms of some features; their counts are ignored.
    """
    read = _frames(table)
    counts: dict[str, np.ndarray] = {}
    clipped: Counter[str] = Counter()
    for frame in read(list(bins)) if bins else ():
        for name, empty in bins.items():
            histogram = _histogram(frame.get_column(name), features[name], empty)
            counts[name] = np.add(counts.get(name, 0), histogram.counts)
            clipped[name] += histogram.clipped
    return Profile(
        features={
            name: empty.model_copy(
                update={"counts": tuple(counts[name].tolist()), "clipped": clipped[name]}
            )
            for name, empty in bins.items()
        }
    )


def compare(
    reference: Profile, now: Profile, features: Mapping[str, Feature], most: float
) -> Report:
    """Compare a table with an earlier one, feature by feature.

    Args:
        reference: Profile of the earlier table.
        now: Profile of the later table, in the same bins.
        features: Declarations by feature; features without a reference are skipped.
        most: Maximum index that does not count as drift.
    """
    begin = time.perf_counter()
    rows = []
    for name in (name for name in features if name in reference.features):
        then, later = reference.features[name], now.features[name]
        index, chance = stability(then.counts, later.counts)
        row = {
            "column": name,
            "index": index,
            "limit": max(most, chance),
            "most": most,
            "chance": chance,
            "missing": _share(later.counts[-1], later),
            "missing_then": _share(then.counts[-1], then),
            "clipped": _share(later.clipped, later),
            "clipped_then": _share(then.clipped, then),
        }
        rows.append(row)
    result = validate(expectations(SUITE), rows, {})
    return Report.of(result, rows, time.perf_counter() - begin)


def stability(
    then: Sequence[int], now: Sequence[int], people: int | None = None
) -> tuple[float, float]:
    """Return the population stability index of two histograms, and its quantile under no drift.

    The index is the sum over bins of (q - p) ln(q / p), for earlier shares p and later shares q,
    with half a row added to each bin. For two samples of one distribution, of n and m rows in k
    bins, it is about (1/n + 1/m) times a chi-squared variable with k - 1 degrees of freedom
    (Yurdakul, "Statistical properties of population stability index", 2018): an index below that
    quantile is no drift.

    Args:
        then: Earlier rows by bin.
        now: Later rows in the same bins.
        people: Minimum number of distinct people in the later rows; the number of rows if None.
    """
    before, after = np.array(then), np.array(now)
    p = (before + 0.5) / (before.sum() + 0.5 * len(before))
    q = (after + 0.5) / (after.sum() + 0.5 * len(after))
    index = float(((q - p) * np.log(q / p)).sum())
    scale = 1 / max(before.sum(), 1) + 1 / max(people or after.sum(), 1)
    return index, float(scale * 2 * gammaincinv((len(before) - 1) / 2, _CHANCE))


def _share(count: int, histogram: Histogram) -> float:
    return round(count / max(histogram.rows, 1), 4)


def _domain_bins(
    read: Frames, features: Mapping[str, Feature], domain: Domain
) -> dict[str, Histogram]:
    """Return the empty bins of numeric features with declared bounds."""
    maps = {
        name: feature.domain_map(domain)
        for name, feature in features.items()
        if feature.type == "numeric" and feature.bounds is not None
    }
    large = {name: mapping.domain for name, mapping in maps.items() if mapping.domain.size > _MOST}
    cells = {name: np.zeros(on.size, dtype=np.int64) for name, on in large.items()}
    for frame in read(list(large)) if large else ():
        for name, on in large.items():
            values = _numbers(frame.get_column(name))
            encoded = maps[name].encode(_finite(values)) - on.lower
            cells[name] += np.bincount(encoded, minlength=on.size)
    bins = {}
    for name, mapping in maps.items():
        on = mapping.domain
        chosen_steps = np.arange(on.lower + 1, on.upper + 1)
        if name in large:
            # Bins with about equal shares of rows: with too many bins chance dominates the index.
            counts = cells[name] if cells[name].any() else np.r_[0, np.ones(len(chosen_steps), int)]
            chosen_steps = np.unique(_lower_quantiles(counts, _MOST)) + on.lower + 1
            chosen_steps = chosen_steps[chosen_steps <= on.upper]
        edges = np.unique([mapping.boundary(int(step)) for step in chosen_steps])
        bins[name] = Histogram(edges=tuple(float(e) for e in edges), counts=(), clipped=0)
    return bins


def _lower_quantiles(counts: np.ndarray, parts: int) -> np.ndarray:
    """Return ``np.quantile(..., method="lower")`` at k / parts for values 0, 1, ... with counts."""
    shares = np.arange(1, parts) / parts
    places = np.floor(shares * (counts.sum() - 1)).astype(np.int64)
    return np.asarray(np.searchsorted(np.cumsum(counts), places, side="right"))


def _deciles(read: Frames, names: Sequence[str]) -> dict[str, Histogram]:
    """Return histograms of numeric features without bounds, which only label holders have.

    Deciles need whole columns in memory, so a few columns are read at a time and counted at once.
    """
    histograms = {}
    remaining, group = list(names), 1
    while remaining:
        columns, remaining = remaining[:group], remaining[group:]
        parts: dict[str, list[np.ndarray]] = {name: [] for name in columns}
        for frame in read(columns):
            for name in columns:
                parts[name].append(_numbers(frame.get_column(name)))
        rows = sum(len(part) for part in parts[columns[0]])
        for name in columns:
            histograms[name] = _decile_bins(np.concatenate(parts.pop(name)))
        group = max(1, _HELD // max(rows, 1))
    return histograms


def _decile_bins(values: np.ndarray) -> Histogram:
    rows, values = len(values), _finite(values)
    # Polars sorts three times as fast as NumPy. Adding 0.0 turns -0.0 into 0.0.
    values = pl.Series(values + 0.0).sort().to_numpy()
    # Like `np.quantile(..., method="lower")` at k / _UNDECLARED.
    shares = np.arange(1, _UNDECLARED) / _UNDECLARED
    places = np.floor(shares * (len(values) - 1)).astype(np.int64)
    edges = np.unique(values[places]) if len(values) else values
    at_most = np.searchsorted(values, edges, side="right")
    counts = (*np.diff([0, *at_most, len(values)]).tolist(), rows - len(values))
    return Histogram(edges=tuple(float(edge) for edge in edges), counts=counts, clipped=0)


def _categories(read: Frames, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    categories: dict[str, set[str]] = {name: set() for name in names}
    for frame in read(names) if names else ():
        for name, values in categories.items():
            column = frame.get_column(name).cast(pl.String)
            values.update(column.drop_nulls().unique().to_list())
    return {name: tuple(sorted(values)) for name, values in categories.items()}


def _histogram(column: pl.Series, feature: Feature, bins: Histogram) -> Histogram:
    if bins.categories:
        order = {category: i for i, category in enumerate(bins.categories)}
        codes = column.cast(pl.String).replace_strict(order, default=None, return_dtype=pl.Int64)
        places = codes.fill_null(len(order)).to_numpy()
        counts = np.bincount(places, minlength=len(order) + 1)
        return bins.model_copy(update={"counts": tuple(counts.tolist()), "clipped": 0})
    values = _finite(_numbers(column))
    # One pass per edge is a dozen times faster than a binary search per value.
    at_most = [np.count_nonzero(values <= edge) for edge in bins.edges]
    counts = np.diff([0, *at_most, len(values)])
    clipped = 0
    if feature.bounds is not None:
        lower, upper = feature.bounds
        clipped = int(np.count_nonzero(values < lower) + np.count_nonzero(values > upper))
    with_missing = (*counts.tolist(), len(column) - len(values))
    return bins.model_copy(update={"counts": with_missing, "clipped": clipped})


def _finite(values: np.ndarray) -> np.ndarray:
    """Return the finite values, without a copy if all are finite."""
    finite = np.isfinite(values)
    return values if finite.all() else values[finite]


def _numbers(column: pl.Series) -> np.ndarray:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
