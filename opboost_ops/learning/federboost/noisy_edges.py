"""Bucket ends of horizontal learning, from noisy counts of rows in fixed cells of each column."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.domain import Domain
from opboost_ops.exchange.rounds.protocol import Round, Rounds
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.private.leaf_sums import COUNT_UNITS

#: Cells of a column in which its rows are counted to find bucket ends.
CELLS = 256


class Ends(Record):
    """Decision of the one round of bucket ends."""

    edges: tuple[tuple[int, ...], ...]


def counted_columns(settings: Settings) -> list[int]:
    """Columns whose buckets are not one for each value of the domain.

    Args:
        settings: What is learnt.
    """
    return [i for i, domain in enumerate(settings.domains) if domain.size > settings.buckets]


def noisy_edges(
    columns: Sequence[np.ndarray], settings: Settings, rounds: Rounds, most: int
) -> tuple[tuple[int, ...], ...]:
    """Inner bucket ends of each column, by one round of noisy counts where there is more to find.

    Args:
        columns: This party's rows: domain integers, one array of shape (n,) a column.
        settings: What is learnt.
        rounds: The way to the others.
        most: What no noisy count passes.

    Raises:
        ContractError: The decision does not fit its round.
    """
    counted = counted_columns(settings)
    fixed = {
        i: tuple(range(domain.lower, domain.upper))
        for i, domain in enumerate(settings.domains)
        if i not in counted
    }
    if not counted:
        return tuple(fixed[i] for i in range(len(columns)))
    ends = {i: cell_ends(settings.domains[i]) for i in counted}
    sizes = [len(ends[i]) for i in counted]

    def counts() -> np.ndarray:
        per_column = (
            # A missing value lies above all cells, and is counted in none.
            np.bincount(np.searchsorted(ends[i], columns[i]), minlength=len(ends[i]))[
                : len(ends[i])
            ]
            for i in counted
        )
        return np.concatenate(list(per_column)).astype(np.int64) * COUNT_UNITS

    def decide(sums: np.ndarray) -> Ends:
        parts = np.split(sums, np.cumsum(sizes)[:-1])
        edges = {
            i: bucket_ends(part, ends[i], settings.buckets)
            for i, part in zip(counted, parts, strict=True)
        }
        return Ends(edges=tuple(edges.get(i) or fixed[i] for i in range(len(columns))))

    decided = rounds.step(Round("lookup"), sum(sizes), counts, decide, Ends, (most,)).edges
    if len(decided) != len(columns) or not all(
        edges
        and domain.lower <= edges[0]
        and edges[-1] < domain.upper
        and all(a < b for a, b in pairwise(edges))
        for domain, edges in zip(settings.domains, decided, strict=True)
    ):
        raise Round("lookup").unfit()
    return decided


def cell_ends(domain: Domain) -> np.ndarray:
    """The greatest integer of each cell of a domain, rising, int64.

    Args:
        domain: A column's.
    """
    cells = min(domain.size, CELLS)
    upto = -(-np.arange(1, cells + 1, dtype=np.int64) * domain.size // cells)
    return domain.lower - 1 + upto


def bucket_ends(counts: np.ndarray, ends: np.ndarray, buckets: int) -> tuple[int, ...]:
    """Ends of buckets of about equal noisy counts, all but the last one's.

    Args:
        counts: Noisy counts by cell, shape (cells,).
        ends: Of the cells.
        buckets: How many at most.
    """
    below = np.maximum.accumulate(np.maximum(np.cumsum(counts), 0)).astype(np.float64)
    wanted = np.arange(1, buckets) * max(below[-1], 1.0) / buckets
    at = np.minimum(np.searchsorted(below, wanted), len(ends) - 2)
    return tuple(int(ends[i]) for i in sorted(set(at.tolist())))
