"""Exact sampling of integer counts: an alias table padded to a power of two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Every row of counts sums to this.
TOTAL = 2**64


@dataclass(frozen=True, eq=False)
class AliasTable:
    """Vose's alias method in integers, one table a row of counts.

    With K = 2^bits columns, the top bits of one 64-bit word choose a column j, and the rest r
    gives j if r < threshold[j], else alias[j]. Choosing a column by multiplication would not be
    exact (2^64 mod 10 = 6), so columns are padded instead.

    Attributes:
        bits: log2 of the number of columns.
        threshold: uint64, shape (rows, K), each at most 2^(64 - bits).
        alias: int64, shape (rows, K).
    """

    bits: int
    threshold: np.ndarray
    alias: np.ndarray

    @classmethod
    def build(cls, counts: Sequence[Sequence[int]]) -> "AliasTable":
        """Build the table whose draws have exactly these counts.

        Args:
            counts: Non-negative integers, shape (rows, outputs); each row sums to 2^64.
        """
        # At least two columns: with one, the capacity 2^64 would not fit into a threshold.
        bits = max(1, (len(counts[0]) - 1).bit_length())
        columns = 2**bits
        threshold = np.zeros((len(counts), columns), dtype=np.uint64)
        alias = np.zeros((len(counts), columns), dtype=np.int64)
        for i, row in enumerate(counts):
            thresholds, aliases = _vose(row, columns, TOTAL // columns)
            threshold[i], alias[i] = thresholds, aliases
        return cls(bits, threshold, alias)

    def sample(self, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
        """One output a word, in constant time: no rejection, no float.

        Args:
            rows: Which row of counts, integers, shape (n,).
            words: Uniform 64-bit words, uint64, shape (n,).

        Returns:
            Output indices, int64, shape (n,).
        """
        rest_bits = np.uint64(64 - self.bits)
        column = (words >> rest_bits).astype(np.int64)
        rest = words & np.uint64((1 << (64 - self.bits)) - 1)
        cell = rows.astype(np.int64) * (1 << self.bits) + column
        keep = rest < self.threshold.reshape(-1)[cell]
        return np.where(keep, column, self.alias.reshape(-1)[cell])

    def rebuilt_counts(self) -> list[list[int]]:
        """The counts that this table samples, recomputed from its columns alone."""
        capacity = TOTAL >> self.bits
        result = []
        for thresholds, aliases in zip(self.threshold.tolist(), self.alias.tolist(), strict=True):
            counts = [0] * len(thresholds)
            for column, (threshold, other) in enumerate(zip(thresholds, aliases, strict=True)):
                counts[column] += threshold
                counts[other] += capacity - threshold
            result.append(counts)
        return result


def _vose(row: Sequence[int], columns: int, capacity: int) -> tuple[list[int], list[int]]:
    left = list(row) + [0] * (columns - len(row))
    threshold, alias = [capacity] * columns, list(range(columns))
    small = [j for j in range(columns) if left[j] < capacity]
    large = [j for j in range(columns) if left[j] > capacity]
    while small:
        j, donor = small.pop(), large[-1]
        threshold[j], alias[j] = left[j], donor
        left[donor] -= capacity - left[j]
        if left[donor] <= capacity:
            large.pop()
            if left[donor] < capacity:
                small.append(donor)
    return threshold, alias
