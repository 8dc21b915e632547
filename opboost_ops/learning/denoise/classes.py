"""Latent-class model of all columns, given the channels.

    p(y, w, l) = sum_z pi_z prod_j (theta_jz K_j)(y_j) prod_c psi_cz(w_c) phi_z(l)

where y are released outputs, w own codes and l the level of the label. Columns are independent
within a class; the classes represent their dependence.

A row adds up one line of a table per column, and later adds its responsibilities to the same lines.
Both are products with a sparse matrix of ones, which visit lines and rows in order. Sums are
therefore the same, to the bit, for any block size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.special import logsumexp, ndtri

from opboost_ops.learning.denoise.rows import Rows
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.cmac import cmac

#: The logarithm of a zero probability.
_LOG_ZERO = -1e30

#: Greatest change of the logarithm of a share in one step.
_STEP = 1.0

#: Most cells of responsibilities in memory: 64 MB of floats.
BLOCK = 8_000_000

#: Cells that are computed at once: 512 KB of floats, which fit in the processor's cache.
_CACHED_CELLS = 65_536


class Draws:
    """Uniform and normal random numbers, each determined by its purpose and position.

    They are keyed hashes under a public seed, which makes models repeatable. Postprocessing of a
    release has no privacy loss, so the seed need not be secret.

    Args:
        seed: 32 bytes.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def uniform(self, purpose: str, begin: int, end: int) -> np.ndarray:
        """Return numbers in (0, 1), float64, shape (end - begin,).

        Args:
            purpose: Purpose of the draw; independent draws need different purposes.
            begin: First position.
            end: Position after the last.
        """
        places = np.arange(begin, end, dtype=np.uint64)
        return self.of_keys(purpose, np.column_stack([places, places]).view(np.uint8))

    def of_keys(self, purpose: str, keys: np.ndarray) -> np.ndarray:
        """Return numbers in (0, 1), float64, shape (n,), each determined by its key.

        Args:
            purpose: As for `uniform`.
            keys: 16 bytes each, uint8, shape (n, 16).
        """
        words = cmac(noise.keyed_by(self._seed, purpose), keys)[:, :8].copy().view(np.uint64)[:, 0]
        return np.asarray((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53

    def normal(self, purpose: str, *shape: int) -> np.ndarray:
        """Return standard normal numbers of the given shape."""
        return np.asarray(ndtri(self.uniform(purpose, 0, int(np.prod(shape))))).reshape(shape)


@dataclass(frozen=True, eq=False)
class Classes:
    """The parameters of the model.

    Attributes:
        pi: Shares of the classes, shape (Z,).
        theta: Shares of the original values of each released column, shape (k, Z).
        psi: Shares of the codes of each own column, shape (codes, Z).
        phi: Shares of the levels of the label, shape (levels, Z).
        fixed: phi does not change: each class belongs to one level, and each level has the same
            number of adjacent classes.
    """

    pi: np.ndarray
    theta: Mapping[str, np.ndarray]
    psi: Mapping[str, np.ndarray]
    phi: np.ndarray
    fixed: bool

    @property
    def possible(self) -> int:
        """The number of classes a row can belong to: those of its level if phi is fixed."""
        return len(self.pi) // (len(self.phi) if self.fixed else 1)

    def clear(self) -> np.ndarray:
        """Return log probabilities of levels and own codes, by line and possible class."""
        first = _log(self.pi) if self.fixed else _log(self.phi) + _log(self.pi)
        # A code that no fitted row had carries no information on the class.
        shares = (np.where(of.any(axis=1, keepdims=True), of, 1.0) for of in self.psi.values())
        return self._lines([first, *map(_log, shares)])

    def noisy(self, laws: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return log probabilities of released outputs, by line and possible class."""
        return self._lines([_log(laws[name].T @ of) for name, of in self.theta.items()])

    def _lines(self, tables: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([table.reshape(-1, self.possible) for table in tables])


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Smoothing of class shares towards those of all rows, and step lengths.

    Attributes:
        alpha: Weight of the shares of all rows, in rows.
        original: Shares of the original values of each released column over all rows, shape (k,).
        own: Shares of the codes of each own column, shape (codes,).
        level: Shares of the levels of the label.
        speed: Step length omega of each released column; 1 for the standard EM algorithm.
    """

    alpha: float
    original: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]
    level: np.ndarray
    speed: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Counts:
    """Sums of responsibilities.

    Attributes:
        weight: Sums over all rows, shape (Z,).
        noisy: Sums by output of each released column, shape (outputs, Z).
        own: Sums by code of each own column, shape (codes, Z).
        level: Sums by level of the label, shape (levels, Z); not used if phi is fixed.
        rows: Number of rows.
    """

    weight: np.ndarray
    noisy: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]
    level: np.ndarray
    rows: int


def maximise(classes: Classes, counts: Counts, rows: Rows, smoothing: Smoothing) -> Classes:
    """Return the classes after the maximisation of an EM step.

    Shares of a released column change by theta(x) <- theta(x) exp(clip(omega ln G(x), -1, 1)),
    where G(x) is the sum over y of K(x, y) N(y) / (theta K)(y), divided by the sum of N. With
    omega = 1 this is the standard step, which is too slow for weak channels.

    Args:
        classes: The classes before the step.
        counts: Sums of responsibilities under these classes.
        rows: The rows, for their channels.
        smoothing: Smoothing and step lengths.
    """
    alpha, total = smoothing.alpha, counts.weight + smoothing.alpha
    theta = {}
    for name, table in counts.noisy.items():
        law, old = rows.laws[name], classes.theta[name]
        expected = np.maximum(law.T @ old, 1e-300)
        gain = law @ (table / expected) / np.maximum(table.sum(axis=0), 1e-12)
        move = np.clip(smoothing.speed[name] * np.log(np.maximum(gain, 1e-300)), -_STEP, _STEP)
        new = old * np.exp(move)
        new /= new.sum(axis=0)
        original = smoothing.original[name][:, None]
        theta[name] = (new * counts.weight + alpha * original) / total
    psi = {n: (of + alpha * smoothing.own[n][:, None]) / total for n, of in counts.own.items()}
    phi = classes.phi
    if not classes.fixed:
        phi = (counts.level + alpha * smoothing.level[:, None]) / total
    pi = np.maximum(counts.weight, 1e-9) / counts.rows
    return replace(classes, pi=pi / pi.sum(), theta=theta, psi=psi, phi=phi)


@dataclass(frozen=True, eq=False)
class _Lines:
    """Indicators of each row's lines, shape (rows, lines), for released columns and all others."""

    noisy: sparse.csr_matrix
    clear: sparse.csr_matrix

    def parts(self, size: int) -> "list[_Lines]":
        return [
            _Lines(self.noisy[begin : begin + size], self.clear[begin : begin + size])
            for begin in range(0, self.noisy.shape[0], size)
        ]


class LatentRows:
    """Rows with the lines of their codes in the tables of classes.

    If phi is fixed, a row belongs to a class of its own level, and each line is a code within one
    level, which reduces the work.

    Args:
        rows: The rows.
        classes: Any classes of the kind that the rows are fitted to.
    """

    def __init__(self, rows: Rows, classes: Classes) -> None:
        self._rows, self._possible = rows, classes.possible
        self._times = rows.levels if classes.fixed else 1
        size = max(1, BLOCK // self._possible)
        blocks = [self._lines(rows.at(slice(i, i + size))) for i in range(0, len(rows), size)]
        at_once = max(1, _CACHED_CELLS // self._possible)
        self._blocks = [(block, block.parts(at_once)) for block in blocks]

    def _lines(self, rows: Rows) -> _Lines:
        times, level = self._times, rows.level if self._times > 1 else 0
        noisy = [codes * times + level for codes in rows.noisy.values()]
        own = [codes * times + level for codes in rows.own.values()]
        outputs = [law.shape[1] * times for law in rows.laws.values()]
        sizes = [size * times for size in rows.sizes.values()]
        return _Lines(_ones(noisy, outputs), _ones([rows.level, *own], [rows.levels, *sizes]))

    def responsibilities(self, classes: Classes) -> np.ndarray:
        """Return Pr[class | y, w, l] of each row's possible classes, shape (n, possible)."""
        return np.concatenate([self._found(classes, parts) for _, parts in self._blocks])

    def scores(self, classes: Classes) -> np.ndarray:
        """Return ln p(y | w, l) for each row."""
        noisy, clear = classes.noisy(self._rows.laws), classes.clear()
        scores = []
        for _, parts in self._blocks:
            for part in parts:
                base = part.clear @ clear
                both = part.noisy @ noisy + base
                scores.append(logsumexp(both, axis=1) - logsumexp(base, axis=1))
        return np.concatenate(scores)

    def step(self, classes: Classes, smoothing: Smoothing) -> Classes:
        """Return the classes after an EM step.

        Args:
            classes: The classes before the step.
            smoothing: Smoothing and step lengths.
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
        return maximise(classes, counts, rows, smoothing)

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


def _log(shares: np.ndarray) -> np.ndarray:
    return np.where(shares > 0, np.log(np.maximum(shares, 1e-300)), _LOG_ZERO)


def _ones(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> sparse.csr_matrix:
    """Return the indicators of each row's lines in stacked tables."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    lines = np.column_stack(codes).astype(np.int32) + starts[:-1].astype(np.int32)
    ends = np.arange(len(lines) + 1, dtype=np.int32) * np.int32(len(codes))
    shape = (len(lines), int(starts[-1]))
    return sparse.csr_matrix((np.ones(lines.size), lines.reshape(-1), ends), shape=shape)


def _by_column(lines: np.ndarray, sizes: Mapping[str, int], width: int) -> dict[str, np.ndarray]:
    """Split stacked tables by column, each with all classes side by side."""
    table = lines.reshape(-1, width)
    begins = np.concatenate([[0], np.cumsum(list(sizes.values()))]).astype(int)
    return {
        name: table[begin : begin + size]
        for (name, size), begin in zip(sizes.items(), begins, strict=False)
    }
