"""The papers' measures of order: the order-preserving probability, and weighted Kendall."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import AdjMap
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.partitions import Partitions
from opboost_ops.privacy.order import pair_order

#: A column whose table of ranks and places has at most so many cells a row is counted by it.
_CELLS_A_ROW = 4


def gamma(channel: Channel, ties: float = 0.0) -> np.ndarray:
    """The order-preserving probability, enumerated over all pairs (OpBoost, section 4).

    gamma(t) is the least probability, over all pairs of inputs x > x' with x - x' = t, that
    the output of x is greater than the output of x'.

    Args:
        channel: A channel whose inputs are a domain's values.
        ties: What two equal outputs count for: 0 (order is lost), 1/2 (a coin decides) or 1.

    Returns:
        float64 of shape (|D| - 1,): gamma(1)..gamma(R - L).
    """
    greater, equal = pair_order(channel)
    kept = greater + ties * equal
    size = len(channel.inputs)
    return np.array([np.diagonal(kept, -t).min() for t in range(1, size)])


def partition_gamma(
    channel: Channel, partitions: Partitions, ties: float = 0.0
) -> dict[int, float]:
    """The same by distance of partitions: the least over all pairs x > x' that are k apart.

    Args:
        channel: A channel on the partitions' domain.
        partitions: Where distances are counted.
        ties: What two equal outputs count for.

    Returns:
        The probability by distance of partitions, 0 for pairs inside one; a distance without any
        pair is left out.
    """
    greater, equal = pair_order(channel)
    kept = greater + ties * equal
    home = np.array([partitions.index(int(x)) for x in channel.inputs])
    apart = home[:, None] - home[None, :]
    ordered = channel.inputs[:, None] > channel.inputs[None, :]
    return {
        k: float(kept[ordered & (apart == k)].min())
        for k in range(int(home.max()) + 1)
        if (ordered & (apart == k)).any()
    }


def halved_partition_gamma(mechanism: AdjMap, domain: Domain, size: int) -> dict[int, float]:
    """What an argument about partitions alone gives for Adj-map, half of "same partition" added.

    It is how the paper reasons for its Theorem 4.6: the order is kept if the partitions keep
    theirs, and in half of the cases in which both values land in one. It is not a lower bound,
    because values in one partition also tie; `partition_gamma` is what holds.

    Args:
        mechanism: With partitions of equal length.
        domain: Where its partitions lie.
        size: What is taken for |D| in epsilon_ner = epsilon / (alpha + theta / |D|); the paper's
            own figures come out with R - L.

    Returns:
        The least over all pairs of partitions that are k apart, by k.
    """
    assert mechanism.theta is not None
    near = mechanism.epsilon / (mechanism.alpha + mechanism.theta / size)
    between = mechanism.alpha * mechanism.theta * near
    parts = np.arange(len(mechanism.partitions(domain).starts))
    weights = np.exp(-np.abs(parts[:, None] - parts[None, :]) * between / 2)
    table = weights / weights.sum(axis=1, keepdims=True)
    below = np.cumsum(table, axis=1) - table
    kept = table @ below.T + (table @ table.T) / 2
    return {int(k): float(np.diagonal(kept, -k).min()) for k in parts}


def weighted_kendall(raw: np.ndarray, released: np.ndarray) -> float:
    """Weighted Kendall coefficient of two columns, in O(n log n) (OpBoost, section 6).

    Over all pairs whose raw values differ, a pair weighs the distance of its dense raw ranks; it
    counts +1 if the released values keep its order, -1 if they turn it, 0 if they tie.

    Args:
        raw: Raw or domain values, shape (n,).
        released: Released values, shape (n,).

    Returns:
        Between -1 and 1; 1 for a column without two different raw values.
    """
    _, ranks = np.unique(np.asarray(raw), return_inverse=True)
    ranks = ranks.reshape(-1).astype(np.int64)
    _, places = np.unique(np.asarray(released), return_inverse=True)
    places = places.reshape(-1).astype(np.int64)
    n = len(ranks)
    # sum over pairs |r_i - r_j| from the sorted ranks; exact in Python's integers.
    ascending = np.sort(ranks)
    whole = int((ascending * (2 * np.arange(n, dtype=np.int64) - n + 1)).sum())
    if whole == 0:
        return 1.0
    size = int(places.max()) + 1
    few = (int(ranks.max()) + 1) * size <= _CELLS_A_ROW * n
    kept = (_by_table if few else _signed_distance)(ranks, places, size)
    return kept / whole


def _by_table(ranks: np.ndarray, places: np.ndarray, size: int) -> float:
    # The same sum from a table of how many rows have each rank and place, a few numpy steps.
    height = int(ranks.max()) + 1
    table = np.bincount(ranks * size + places, minlength=height * size).reshape(height, size)
    weighted = np.arange(height, dtype=np.int64)[:, None] * table
    lower, lower_sum = (np.cumsum(t, axis=0) - t for t in (table, weighted))
    net, net_sum = (_below_less_above(t) for t in (lower, lower_sum))
    return float((weighted * net - table * net_sum).sum())


def _below_less_above(table: np.ndarray) -> np.ndarray:
    upto = np.cumsum(table, axis=1)
    return np.asarray(upto - table - (upto[:, -1:] - upto))


def _signed_distance(ranks: np.ndarray, places: np.ndarray, size: int) -> float:
    # Rows in rising raw order, a run of equal raw values at a time: each asks how many rows with
    # lower raw values lie below and above its place, and for the sums of their ranks.
    counts, sums = _Fenwick(size), _Fenwick(size)
    order = np.argsort(ranks, kind="stable")
    total = 0
    for run in _runs(ranks[order]):
        rows = order[run]
        rank = int(ranks[rows[0]])
        here, times = np.unique(places[rows], return_counts=True)
        for place, repeat in zip(here.tolist(), times.tolist(), strict=True):
            below, below_sum = counts.before(place), sums.before(place)
            upto, upto_sum = counts.before(place + 1), sums.before(place + 1)
            above, above_sum = counts.total - upto, sums.total - upto_sum
            total += repeat * (rank * (below - above) - (below_sum - above_sum))
        for place, repeat in zip(here.tolist(), times.tolist(), strict=True):
            counts.add(place, repeat)
            sums.add(place, repeat * rank)
    return float(total)


def _runs(ascending: np.ndarray) -> Iterator[slice]:
    starts = [0, *(np.flatnonzero(np.diff(ascending)) + 1).tolist(), len(ascending)]
    for begin, end in pairwise(starts):
        yield slice(begin, end)


class _Fenwick:
    """Prefix sums of integers that change one at a time, each in O(log n)."""

    def __init__(self, size: int) -> None:
        self._tree = [0] * (size + 1)
        self.total = 0

    def add(self, place: int, amount: int) -> None:
        self.total += amount
        place += 1
        while place < len(self._tree):
            self._tree[place] += amount
            place += place & -place

    def before(self, place: int) -> int:
        found = 0
        while place > 0:
            found += self._tree[place]
            place -= place & -place
        return found
