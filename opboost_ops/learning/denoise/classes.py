"""Latent classes of all columns, under the channels that are known.

    p(y, w, l) = sum_z pi_z prod_j (theta_jz K_j)(y_j) prod_c psi_cz(w_c) phi_z(l)

with noisy cells y, own codes w and the label's level l. In one class columns are independent; what
goes together is said by the classes.

A row adds up one line of a table for each of its columns, and later adds its responsibilities to
the same lines. Both are products with a sparse matrix of ones. They reach lines and rows in their
order, so sums are the same to the bit however many rows are worked on at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, ndtri

from opboost_ops.learning.denoise.rows import Rows
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.cmac import cmac

#: Stands for a probability of zero, in logarithms.
_NEVER = -1e30

#: How far one step may move the logarithm of a share.
_STRIDE = 1.0

#: Most cells of responsibilities that are held at once: 64 MB of floats.
BLOCK = 8_000_000

#: Cells that are computed at once, 512 KB of floats: they stay in the processor's cache.
_AT_ONCE = 65_536


class Draws:
    """Uniform and normal numbers, each named by its purpose and place.

    They are keyed hashes under a public seed, which makes the model repeatable: what is made of a
    release costs nothing.

    Args:
        seed: 32 bytes.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def uniform(self, purpose: str, begin: int, end: int) -> np.ndarray:
        """Numbers in (0, 1), float64, shape (end - begin,); the same for the same places.

        Args:
            purpose: No two draws that must be independent have the same.
            begin: Of the first place.
            end: Beyond the last.
        """
        places = np.arange(begin, end, dtype=np.uint64)
        return self.of_keys(purpose, np.column_stack([places, places]).view(np.uint8))

    def of_keys(self, purpose: str, keys: np.ndarray) -> np.ndarray:
        """Numbers in (0, 1), float64, shape (n,), each a function of its key alone.

        Args:
            purpose: As for `uniform`.
            keys: 16 bytes each, uint8, shape (n, 16).
        """
        words = cmac(noise.keyed_by(self._seed, purpose), keys)[:, :8].copy().view(np.uint64)[:, 0]
        return np.asarray((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53

    def normal(self, purpose: str, *shape: int) -> np.ndarray:
        """Standard normal numbers of a shape."""
        return np.asarray(ndtri(self.uniform(purpose, 0, int(np.prod(shape))))).reshape(shape)


@dataclass(frozen=True, eq=False)
class Classes:
    """The parameters.

    Attributes:
        pi: Shares of the classes, shape (Z,).
        theta: Shares of the values behind a column in each class, shape (k, Z), by column.
        psi: Shares of an own column's codes, shape (codes, Z), by column.
        phi: Shares of the label's levels, shape (levels, Z).
        fixed: Whether phi stays as it is: each class belongs to one level, equally many to each,
            and those of a level lie side by side.
    """

    pi: np.ndarray
    theta: Mapping[str, np.ndarray]
    psi: Mapping[str, np.ndarray]
    phi: np.ndarray
    fixed: bool

    @property
    def possible(self) -> int:
        """How many classes a row can be of: those of its own level where phi is fixed."""
        return len(self.pi) // (len(self.phi) if self.fixed else 1)

    def clear(self) -> np.ndarray:
        """Logarithms of what level and own codes say, by line and possible class; see `Seen`."""
        first = _log(self.pi) if self.fixed else _log(self.phi) + _log(self.pi)
        # A code that no fitted row had says nothing of the class.
        shares = (np.where(of.any(axis=1, keepdims=True), of, 1.0) for of in self.psi.values())
        return self._lines([first, *map(_log, shares)])

    def noisy(self, laws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logarithms of what released cells say, by line and possible class; see `Seen`."""
        return self._lines([_log(laws[name].T @ of) for name, of in self.theta.items()])

    def _lines(self, tables: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([table.reshape(-1, self.possible) for table in tables])


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Smoothing that keeps shares of few rows near those of all.

    Attributes:
        alpha: How many rows' worth.
        behind: The values behind each released column, over all rows, shape (k,).
        own: Shares of each own column's codes, shape (codes,).
        level: Shares of the label's levels.
        speed: omega of each released column; 1 is plain expectation maximisation.
    """

    alpha: float
    behind: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]
    level: np.ndarray
    speed: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Counts:
    """Responsibilities of rows, summed by what the rows hold.

    Attributes:
        weight: Of all rows, shape (Z,).
        noisy: By output, shape (outputs, Z), by column.
        own: By code, shape (codes, Z), by column.
        level: By the label's level, shape (levels, Z); of no use where phi is fixed.
        rows: How many there are.
    """

    weight: np.ndarray
    noisy: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]
    level: np.ndarray
    rows: int


def moved(classes: Classes, counts: Counts, rows: Rows, smoothing: Smoothing) -> Classes:
    """The second half of a step of expectation maximisation.

    A noisy column's shares move by theta(x) <- theta(x) exp(clip(omega ln G(x), -1, 1)), G(x) being
    the sum over y of K(x, y) N(y) / (theta K)(y), divided by the sum of N: at omega = 1 it is the
    usual step, which is far too slow where a channel says little.

    Args:
        classes: As they are.
        counts: Of the responsibilities under them.
        rows: For laws.
        smoothing: And speed.
    """
    alpha, total = smoothing.alpha, counts.weight + smoothing.alpha
    theta = {}
    for name, table in counts.noisy.items():
        law, old = rows.laws[name], classes.theta[name]
        expected = np.maximum(law.T @ old, 1e-300)
        gain = law @ (table / expected) / np.maximum(table.sum(axis=0), 1e-12)
        move = np.clip(smoothing.speed[name] * np.log(np.maximum(gain, 1e-300)), -_STRIDE, _STRIDE)
        new = old * np.exp(move)
        new /= new.sum(axis=0)
        behind = smoothing.behind[name][:, None]
        theta[name] = (new * counts.weight + alpha * behind) / total
    psi = {n: (of + alpha * smoothing.own[n][:, None]) / total for n, of in counts.own.items()}
    phi = classes.phi
    if not classes.fixed:
        phi = (counts.level + alpha * smoothing.level[:, None]) / total
    pi = np.maximum(counts.weight, 1e-9) / counts.rows
    return replace(classes, pi=pi / pi.sum(), theta=theta, psi=psi, phi=phi)


def _log(shares: np.ndarray) -> np.ndarray:
    return np.where(shares > 0, np.log(np.maximum(shares, 1e-300)), _NEVER)


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
