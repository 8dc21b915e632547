"""Where buckets end: all quantiles of all columns by simultaneous binary search.

FederBoost's Protocol 3 over the integers of the declared domain: the j-th of q quantiles is the
smallest v with at least ceil(j n / q) rows at or below it. In the same rounds the intervals that
hold any row are halved, so that a column of at most q distinct values gets a bucket for each.
After at most ceil(log2 |D|) rounds both are known. The state is public and complete: it and the
next sums give the next state, so that a search can go on anywhere.
"""

from collections.abc import Sequence

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain

Interval = tuple[int, int]


class Search(Record):
    """How far the search in one column has come.

    Attributes:
        quantiles: For each quantile an interval (a, b] in which it lies.
        present: Intervals (a, b] that together hold all rows, each of them some; None once there
            are more of them than buckets.
    """

    quantiles: tuple[Interval, ...]
    present: tuple[Interval, ...] | None

    @property
    def over(self) -> bool:
        """True if every interval is one value."""
        return all(b - a == 1 for a, b in (*self.quantiles, *(self.present or ())))

    @property
    def edges(self) -> tuple[int, ...]:
        """The greatest value of each bucket but the last, increasing; once it is over."""
        ends = self.quantiles if self.present is None else self.present[:-1]
        return tuple(sorted({b for _, b in ends}))


def begin(domains: Sequence[Domain], buckets: int) -> tuple[Search, ...]:
    """The search before its first round.

    Args:
        domains: Of each column.
        buckets: At most how many buckets a column gets.
    """
    return tuple(
        Search(
            quantiles=((domain.lower - 1, domain.upper),) * (buckets - 1),
            present=((domain.lower - 1, domain.upper),),
        )
        for domain in domains
    )


class Ordered:
    """One party's columns, ready to be counted.

    Args:
        columns: Domain integers, one array a column.
    """

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self._sorted = [np.sort(column) for column in columns]

    def counts(self, searches: Sequence[Search]) -> np.ndarray:
        """The integers that the parties add up in one round, int64.

        By column: how many rows lie at or below the middle of each open quantile's interval, and
        in the lower and upper half of each present one that is more than one value.

        Args:
            searches: Of each column.
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
    """The search after one more round.

    Args:
        searches: Before it.
        sums: As `Ordered.counts` gives them, added up.
        rows: Of all parties, those that have a value; by column.
        buckets: At most how many buckets a column's values get.
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
    """How many integers a round adds up."""
    return sum(len(_open(s.quantiles)) + 2 * len(_open(s.present or ())) for s in searches)


def bins_of(
    columns: Sequence[np.ndarray],
    edges: Sequence[Sequence[int]],
    missing: Sequence[int | None] = (),
) -> np.ndarray:
    """Bins of domain integers: as many as there are edges below a value.

    Args:
        columns: Domain integers, one array of shape (n,) a column.
        edges: Of each column.
        missing: Of each column the integer, above its domain, that stands for a missing value;
            None where none may be missing. Its bin is one more, the last. Empty: all None.

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
    """Both halves of an interval; itself, if it is one value."""
    a, b = interval
    return ((a, _middle(interval)), (_middle(interval), b)) if b - a > 1 else (interval,)


def _middle(interval: Interval) -> int:
    return (interval[0] + interval[1]) // 2


def _open(intervals: Sequence[Interval]) -> list[Interval]:
    return [(a, b) for a, b in intervals if b - a > 1]
