"""The papers' measures of order: the order-preserving probability, and weighted Kendall."""

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import AdjMap
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.parameters import Partitions
from opboost_ops.privacy.planner import pair_order


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
    """Weighted Kendall coefficient of two columns of few values (OpBoost, section 6).

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
    # The same sum of what keeps its order, from how many rows have each rank and place.
    height, width = int(ranks.max()) + 1, int(places.max()) + 1
    table = np.bincount(ranks * width + places, minlength=height * width).reshape(height, width)
    weighted = np.arange(height, dtype=np.int64)[:, None] * table
    lower, lower_sum = (np.cumsum(t, axis=0) - t for t in (table, weighted))
    net, net_sum = (_below_less_above(t) for t in (lower, lower_sum))
    return float((weighted * net - table * net_sum).sum()) / whole


def _below_less_above(table: np.ndarray) -> np.ndarray:
    upto = np.cumsum(table, axis=1)
    return np.asarray(upto - table - (upto[:, -1:] - upto))
