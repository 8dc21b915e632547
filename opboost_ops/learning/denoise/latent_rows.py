"""Rows as latent classes see them, laid out once for many steps of expectation maximisation.

A row adds up one line of a table for each of its columns, and later adds its responsibilities to
the same lines. Both are products with a sparse matrix of ones. They reach lines and rows in their
order, so sums are the same to the bit however many rows are worked on at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from opboost_ops.learning.denoise.classes import Classes, Counts, Smoothing, moved
from opboost_ops.learning.denoise.rows import Rows

#: Most cells of responsibilities that are held at once: 64 MB of floats.
BLOCK = 8_000_000

#: Cells that are computed at once, 512 KB of floats: they stay in the processor's cache.
_AT_ONCE = 65_536


@dataclass(frozen=True, eq=False)
class _Lines:
    """A 1 for each of a row's lines, shape (rows, lines): of released cells, and of all else."""

    noisy: sparse.csr_matrix
    clear: sparse.csr_matrix

    def parts(self, size: int) -> "list[_Lines]":
        return [
            _Lines(self.noisy[begin : begin + size], self.clear[begin : begin + size])
            for begin in range(0, self.noisy.shape[0], size)
        ]


class LatentRows:
    """Rows, and where each finds its shares in tables of all classes.

    Where phi is fixed a row is of one of its own level's classes, and a line is a code in one
    level: its work is a fraction of that of all classes.

    Args:
        rows: Which.
        classes: Any of their kind; others of it are as many.
    """

    def __init__(self, rows: Rows, classes: Classes) -> None:
        self._rows, self._possible = rows, classes.possible
        self._times = rows.levels if classes.fixed else 1
        size = max(1, BLOCK // self._possible)
        blocks = [self._lines(rows.at(slice(i, i + size))) for i in range(0, len(rows), size)]
        at_once = max(1, _AT_ONCE // self._possible)
        self._blocks = [(block, block.parts(at_once)) for block in blocks]

    def _lines(self, rows: Rows) -> _Lines:
        times, level = self._times, rows.level if self._times > 1 else 0
        noisy = [codes * times + level for codes in rows.noisy.values()]
        own = [codes * times + level for codes in rows.own.values()]
        outputs = [law.shape[1] * times for law in rows.laws.values()]
        sizes = [size * times for size in rows.sizes.values()]
        return _Lines(_ones(noisy, outputs), _ones([rows.level, *own], [rows.levels, *sizes]))

    def responsibilities(self, classes: Classes) -> np.ndarray:
        """Pr[class | y, w, l] of each row's possible classes, float64, shape (n, possible)."""
        return np.concatenate([self._found(classes, parts) for _, parts in self._blocks])

    def scores(self, classes: Classes) -> np.ndarray:
        """Each row's ln p(y | w, l): what released cells say, given what is known clearly."""
        noisy, clear = classes.noisy(self._rows.laws), classes.clear()
        scores = []
        for _, parts in self._blocks:
            for part in parts:
                base = part.clear @ clear
                both = part.noisy @ noisy + base
                scores.append(logsumexp(both, axis=1) - logsumexp(base, axis=1))
        return np.concatenate(scores)

    def step(self, classes: Classes, smoothing: Smoothing) -> Classes:
        """One step of expectation maximisation.

        Args:
            classes: As they are.
            smoothing: And speed.
        """
        rows, width = self._rows, len(classes.pi)
        outputs = sum(law.shape[1] for law in rows.laws.values())
        noisy = np.zeros((outputs * self._times, self._possible))
        clear = np.zeros((rows.levels + sum(rows.sizes.values()) * self._times, self._possible))
        weight = np.zeros(self._possible)
        for block, parts in self._blocks:
            responsibilities = self._found(classes, parts)
            noisy += block.noisy.T @ responsibilities
            clear += block.clear.T @ responsibilities
            weight += responsibilities.sum(axis=0)
        level, own = clear[: rows.levels], clear[rows.levels :]
        counts = Counts(
            level.reshape(-1) if classes.fixed else weight,
            _by_column(noisy, {name: law.shape[1] for name, law in rows.laws.items()}, width),
            _by_column(own, rows.sizes, width),
            level,
            len(rows),
        )
        return moved(classes, counts, rows, smoothing)

    def _found(self, classes: Classes, parts: Sequence[_Lines]) -> np.ndarray:
        noisy, clear = classes.noisy(self._rows.laws), classes.clear()
        responsibilities = np.empty((sum(part.noisy.shape[0] for part in parts), self._possible))
        begin = 0
        for part in parts:
            logits = part.noisy @ noisy
            logits += part.clear @ clear
            logits -= logits.max(axis=1, keepdims=True)
            np.exp(logits, out=logits)
            end = begin + len(logits)
            np.divide(logits, logits.sum(axis=1, keepdims=True), out=responsibilities[begin:end])
            begin = end
        return responsibilities


def _ones(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> sparse.csr_matrix:
    """A row's lines in tables that lie one below the other."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    lines = np.column_stack(codes).astype(np.int32) + starts[:-1].astype(np.int32)
    ends = np.arange(len(lines) + 1, dtype=np.int32) * np.int32(len(codes))
    shape = (len(lines), int(starts[-1]))
    return sparse.csr_matrix((np.ones(lines.size), lines.reshape(-1), ends), shape=shape)


def _by_column(lines: np.ndarray, sizes: Mapping[str, int], width: int) -> dict[str, np.ndarray]:
    """Tables that lie one below the other, each with all classes side by side again."""
    table = lines.reshape(-1, width)
    begins = np.concatenate([[0], np.cumsum(list(sizes.values()))]).astype(int)
    return {
        name: table[begin : begin + size]
        for (name, size), begin in zip(sizes.items(), begins, strict=False)
    }
