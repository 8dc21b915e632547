"""Latent classes of all columns, under the channels that are known.

    p(y, w, l) = sum_z pi_z prod_j (theta_jz K_j)(y_j) prod_c psi_cz(w_c) phi_z(l)

with noisy cells y, own codes w and the label's level l. In one class columns are independent; what
goes together is said by the classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.learning.denoise.rows import Rows

#: Stands for a probability of zero, in logarithms.
_NEVER = -1e30

#: How far one step may move the logarithm of a share.
_STRIDE = 1.0


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
