"""Bucket edges: simultaneous binary search for all quantiles of all columns.

This is FederBoost's Protocol 3 over the integers of the declared domain: the j-th of q quantiles is
the smallest v with at least ceil(j n / q) rows at or below it. The same rounds halve the intervals
that contain rows, so that a column with at most q distinct values gets a bucket for each value. At
most ceil(log2 |D|) rounds are needed. The state is public and complete: the next state follows from
it and the next sums, so an interrupted search can resume.
"""

from collections.abc import Sequence

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain

Interval = tuple[int, int]


class Search(Record):
    """The state of the search in one column.

    Attributes:
        quantiles: For each quantile, an interval (a, b] that contains it.
        present: Intervals (a, b] that together contain all rows, and each at least one; None once
            there are more intervals than buckets.
    """

    quantiles: tuple[Interval, ...]
    present: tuple[Interval, ...] | None

    @property
    def done(self) -> bool:
        """True if every interval contains a single value."""
        return all(b - a == 1 for a, b in (*self.quantiles, *(self.present or ())))

    @property
    def edges(self) -> tuple[int, ...]:
        """The greatest value of each bucket except the last, ascending, after the search."""
        ends = self.quantiles if self.present is None else self.present[:-1]
        return tuple(sorted({b for _, b in ends}))


def begin(domains: Sequence[Domain], buckets: int) -> tuple[Search, ...]:
    """Return the state before the first round.

    Args:
        domains: Domain of each column.
        buckets: Greatest number of buckets per column.
    """
    return tuple(
        Search(
            quantiles=((domain.lower - 1, domain.upper),) * (buckets - 1),
            present=((domain.lower - 1, domain.upper),),
        )
        for domain in domains
    )


class SortedColumns:
    """A party's columns, sorted for counting.

    Args:
        columns: Domain integers, one array per column.
    """

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self._sorted = [np.sort(column) for column in columns]

    def counts(self, searches: Sequence[Search]) -> np.ndarray:
        """Return the integers that the parties add up in one round, int64.

        They are, by column, the number of rows at or below the middle of each open interval of a
        quantile, and in the lower and upper half of each open interval that contains rows.

        Args:
            searches: State of each column.
        """
        parts = []
        for column, search in zip(self._sorted, searches, strict=True):
            middles = [_middle(each) for each in _open(search.quantiles)]
            parts.append(np.searchsorted(column, middles, side="right"))
            edges = [(a, _middle((a, b)), b) for a, b in _open(search.present or ())]
            below = np.searchsorted(column, np.reshape(edges, (-1, 3)), side="right")
            parts.append(np.diff(below, axis=1).ravel())
        return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def narrow(
    searches: Sequence[Search], sums: np.ndarray, rows: Sequence[int], buckets: int
) -> tuple[Search, ...]:
    """Return the state after one more round.

    Args:
        searches: State before the round.
        sums: Sums of `SortedColumns.counts` over all parties.
        rows: Number of rows of all parties with a value, by column.
        buckets: Greatest number of buckets per column.
    """
    values = iter(int(value) for value in sums)
    narrowed = []
    for search, count in zip(searches, rows, strict=True):
        quantiles = []
        for j, interval in enumerate(search.quantiles, start=1):
            parts = halves(interval)
            upper = len(parts) == 2 and next(values) < -(-j * count // buckets)
            quantiles.append(parts[upper])
        present: list[Interval] = []
        for interval in search.present or ():
            parts = halves(interval)
            present += parts if len(parts) == 1 else [half for half in parts if next(values)]
        few = search.present is not None and len(present) <= buckets
        narrowed.append(Search(quantiles=tuple(quantiles), present=tuple(present) if few else None))
    return tuple(narrowed)


def size_of(searches: Sequence[Search]) -> int:
    """Return the number of integers that a round adds up."""
    return sum(len(_open(s.quantiles)) + 2 * len(_open(s.present or ())) for s in searches)


def bins_of(
    columns: Sequence[np.ndarray],
    edges: Sequence[Sequence[int]],
    missing: Sequence[int | None] = (),
) -> np.ndarray:
    """Return the bins of domain integers: the number of edges below each value.

    Args:
        columns: Domain integers, one array of shape (n,) per column.
        edges: Bucket edges of each column.
        missing: For each column, the integer above its domain that represents a missing value,
            which has a bin of its own, the last; None if no value may be missing. Empty if all are
            None.

    Returns:
        int64, shape (columns, n).
    """
    bins = np.empty((len(columns), len(columns[0]) if columns else 0), dtype=np.int64)
    gaps = missing or (None,) * len(columns)
    for row, column, ends, gap in zip(bins, columns, edges, gaps, strict=True):
        row[:] = np.searchsorted(np.asarray(ends, dtype=np.int64), column, side="left")
        if gap is not None:
            row += column == gap
    return bins


def halves(interval: Interval) -> tuple[Interval, ...]:
    """Return both halves of an interval, or the interval itself if it contains a single value."""
    a, b = interval
    return ((a, _middle(interval)), (_middle(interval), b)) if b - a > 1 else (interval,)


def _middle(interval: Interval) -> int:
    return (interval[0] + interval[1]) // 2


def _open(intervals: Sequence[Interval]) -> list[Interval]:
    return [(a, b) for a, b in intervals if b - a > 1]
