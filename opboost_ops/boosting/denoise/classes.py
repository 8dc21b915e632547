"""Latent classes of all columns, under the channels that are known.

    p(y, w, l) = sum_z pi_z prod_j (theta_jz K_j)(y_j) prod_c psi_cz(w_c) phi_z(l)

with noisy cells y, own codes w and the label's level l. In one class columns are independent; what
goes together is said by the classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from opboost_ops.boosting.denoise.rows import Rows, indicator

#: Stands for a probability of zero, in logarithms.
_NEVER = -1e30

#: How far one step may move the logarithm of a share.
_STRIDE = 1.0

#: Most cells of responsibilities that are worked on at once: 64 MB of floats.
BLOCK = 8_000_000


@dataclass(frozen=True, eq=False)
class Classes:
    """The parameters.

    Attributes:
        pi: Shares of the classes, shape (Z,).
        theta: Shares of the values behind a column in each class, shape (k, Z), by column.
        psi: Shares of an own column's codes, shape (codes, Z), by column.
        phi: Shares of the label's levels, shape (levels, Z).
        fixed: Whether phi stays as it is: each class belongs to one level.
    """

    pi: np.ndarray
    theta: Mapping[str, np.ndarray]
    psi: Mapping[str, np.ndarray]
    phi: np.ndarray
    fixed: bool

    def responsibilities(self, rows: Rows) -> np.ndarray:
        """Pr[class | y, w, l], float64, shape (n, Z)."""
        clear = self._clear(rows)
        noisy = self._noisy(rows)
        noisy += clear
        noisy -= noisy.max(axis=1, keepdims=True)
        np.exp(noisy, out=noisy)
        noisy /= noisy.sum(axis=1, keepdims=True)
        return noisy

    def scores(self, rows: Rows) -> np.ndarray:
        """Each row's ln p(y | w, l): what released cells say, given what is known clearly."""
        clear = self._clear(rows)
        both = logsumexp(self._noisy(rows) + clear, axis=1) - logsumexp(clear, axis=1)
        return np.asarray(both)

    def _clear(self, rows: Rows) -> np.ndarray:
        found = _log(self.phi)[rows.level] + _log(self.pi)
        for name, codes in rows.own.items():
            found += _log(self.psi[name])[codes]
        return np.asarray(found)

    def _noisy(self, rows: Rows) -> np.ndarray:
        found = np.zeros((len(rows), len(self.pi)))
        for name, outputs in rows.noisy.items():
            found += _log(rows.laws[name].T @ self.theta[name])[outputs]
        return found


@dataclass(frozen=True, eq=False)
class Smoothing:
    """What keeps shares of few rows near those of all.

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


def step(classes: Classes, rows: Rows, smoothing: Smoothing) -> Classes:
    """One step of expectation maximisation.

    A noisy column's shares move by theta(x) <- theta(x) exp(clip(omega ln G(x), -1, 1)), G(x) being
    the sum over y of K(x, y) N(y) / (theta K)(y), divided by the sum of N: at omega = 1 it is the
    usual step, which is far too slow where a channel says little.

    Args:
        classes: As they are.
        rows: To fit.
        smoothing: And speed.
    """
    width = len(classes.pi)
    size = max(1, BLOCK // width)
    weight = np.zeros(width)
    noisy = {n: np.zeros((law.shape[1], width)) for n, law in rows.laws.items()}
    own = {n: np.zeros((count, width)) for n, count in rows.sizes.items()}
    level = np.zeros((rows.levels, width))
    for begin in range(0, len(rows), size):
        block = rows.at(slice(begin, begin + size))
        found = classes.responsibilities(block)
        weight += found.sum(axis=0)
        for name, codes in block.noisy.items():
            noisy[name] += indicator(codes, len(noisy[name])) @ found
        for name, codes in block.own.items():
            own[name] += indicator(codes, len(own[name])) @ found
        if not classes.fixed:
            level += indicator(block.level, rows.levels) @ found
    alpha, total = smoothing.alpha, weight + smoothing.alpha
    theta = {}
    for name, counts in noisy.items():
        law, old = rows.laws[name], classes.theta[name]
        expected = np.maximum(law.T @ old, 1e-300)
        gain = law @ (counts / expected) / np.maximum(counts.sum(axis=0), 1e-12)
        move = np.clip(smoothing.speed[name] * np.log(np.maximum(gain, 1e-300)), -_STRIDE, _STRIDE)
        moved = old * np.exp(move)
        moved /= moved.sum(axis=0)
        theta[name] = (moved * weight + alpha * smoothing.behind[name][:, None]) / total
    psi = {n: (counts + alpha * smoothing.own[n][:, None]) / total for n, counts in own.items()}
    phi = classes.phi
    if not classes.fixed:
        phi = (level + alpha * smoothing.level[:, None]) / total
    pi = np.maximum(weight, 1e-9) / len(rows)
    return replace(classes, pi=pi / pi.sum(), theta=theta, psi=psi, phi=phi)


def _log(shares: np.ndarray) -> np.ndarray:
    return np.where(shares > 0, np.log(np.maximum(shares, 1e-300)), _NEVER)
