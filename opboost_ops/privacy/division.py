"""Selects the columns to release, and divides a total loss among them.

A column's released value y predicts the label as f(y) = E[label | y], which is exact given the
channel and the sample's counts. Several columns together explain the share of the label's variance
that the best weighted sum of these predictions explains, with independent noise per column:

    R2 = c' A^-1 c / Var(label),  c_j = A_jj = Var f_j,  A_jk = Cov(E[f_j | x_j], E[f_k | x_k])

This does not count redundant columns twice. For classes, R2 is summed over their indicators.

At small losses the explained variance grows faster than the loss, so a greedy division from zero is
misleading. Instead, the best columns are searched for an even division among 1, 2, ... columns;
then shares move between columns as long as that improves the result.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Geometric, Mechanism
from opboost_ops.mechanisms.geometric import LEAST_EPSILON
from opboost_ops.privacy.planner import Caps, designed_under, rounded_down

#: Number of shares of a total; fewer for large domains, whose channels take longer to build.
UNITS, UNITS_OF_LARGE, _LARGE = 16, 8, 32

#: Weight of the overall mean in each value's mean label, in rows.
_PRIOR_ROWS = 1.0

#: Smaller gains count as zero.
_MIN_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Evidence:
    """Public knowledge of columns and label.

    Attributes:
        names: Names of the columns.
        marginals: Number of rows with each value, float64, shape (columns, |D|).
        means: The label's mean at each value minus its overall mean, by target, float64, shape
            (targets, columns, |D|).
        whole: The label's variance by target, shape (targets,).
        codes: Values from 0 of sampled rows, shape (n, columns); None if columns are declared
            independent.
    """

    names: tuple[str, ...]
    marginals: np.ndarray
    means: np.ndarray
    whole: np.ndarray
    codes: np.ndarray | None


@dataclass(frozen=True)
class Division:
    """A division of a total loss among columns.

    Attributes:
        shares: Units by released column; they sum to the total's units.
        kept: Share of the label's variance that the columns explain together.
    """

    shares: Mapping[str, int]
    kept: float


def sampled(
    names: Sequence[str],
    codes: np.ndarray,
    label: np.ndarray,
    classes: int,
    size: int,
    predicted: np.ndarray | None = None,
) -> Evidence:
    """Compute the evidence of a public sample.

    Args:
        names: Names of the columns.
        codes: Their values from 0, int64, shape (n, columns).
        label: Numbers or class indices, shape (n,).
        classes: Number of classes; 0 for a numeric label.
        size: |D| of the largest domain.
        predicted: Predictions of the label from the label holder's own columns, shape (n,) or
            (n, classes); if given, columns are judged by how they explain the residual.
    """
    targets = [(label == c).astype(float) for c in range(classes)] if classes else [label]
    if predicted is not None:
        targets = [
            target - prediction
            for target, prediction in zip(targets, predicted.reshape(len(label), -1).T, strict=True)
        ]
    marginals = np.array([np.bincount(column, minlength=size) for column in codes.T], dtype=float)
    means = np.empty((len(targets), len(names), size))
    for t, target in enumerate(targets):
        residual = target - target.mean()
        for j, column in enumerate(codes.T):
            sums = np.bincount(column, residual, minlength=size)
            means[t, j] = sums / (marginals[j] + _PRIOR_ROWS)
    whole = np.array([target.var() for target in targets])
    return Evidence(tuple(names), marginals, means, whole, codes)


def independent(importances: Mapping[str, float], sizes: Sequence[int]) -> Evidence:
    """Return the evidence of declared importances: shares of the label's variance.

    Columns count as independent and uniformly distributed.

    Args:
        importances: By column, positive; only their ratios matter.
        sizes: |D| of each column.
    """
    weights = np.array(list(importances.values()), dtype=float)
    marginals, means = np.zeros((2, len(sizes), max(sizes)))
    for j, (weight, size) in enumerate(zip(weights / weights.sum(), sizes, strict=True)):
        line = np.arange(size) - (size - 1) / 2
        marginals[j, :size] = 1
        means[j, :size] = np.sqrt(weight / (line**2).mean()) * line
    return Evidence(tuple(importances), marginals, means[None], np.ones(1), None)


def mechanism_under(domain: Domain, caps: Caps) -> Mechanism | None:
    """Return the best mechanism of one column under caps; None if no channel satisfies them.

    It is geometric if only loss(1) is capped; else a channel designed for both caps if there is
    one, and geometric under both caps otherwise.
    """
    if (designed := designed_under(domain, caps)) is not None:
        return designed
    far = math.inf if caps.whole is None else caps.whole / (domain.size - 1)
    epsilon = rounded_down(min(caps.step or far, far), 6)
    return Geometric(epsilon=epsilon) if epsilon >= LEAST_EPSILON else None


class Divider:
    """Finds divisions of one total.

    Args:
        evidence: Evidence of the columns.
        domains: Domains of the columns.
        total: Caps on the sum over columns.
        progress: Called with the number of channels built and their total.

    Attributes:
        units: Number of shares of the total.
    """

    def __init__(
        self,
        evidence: Evidence,
        domains: Sequence[Domain],
        total: Caps,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._evidence, self._domains, self._total = evidence, domains, total
        large = max(domain.size for domain in domains) > _LARGE
        self.units = UNITS_OF_LARGE if large else UNITS
        self._columns = len(evidence.names)
        # Shares of 1..units of the total, and the same for an even division over all columns.
        parts = [k / self.units for k in range(1, self.units + 1)]
        parts += [part / self._columns for part in parts]
        laws: dict[Domain, list[np.ndarray | None]] = {domain: [] for domain in domains}
        self._levels = len(parts)
        for done, part in enumerate(parts):
            for domain, of_domain in laws.items():
                mechanism = mechanism_under(domain, self._part(part))
                law = None if mechanism is None else mechanism.channel(domain).probabilities()
                of_domain.append(law)
            if progress is not None:
                progress(done + 1, len(parts))
        self._variances, self._shared = _joined(evidence, [laws[domain] for domain in domains])

    def mechanism(self, name: str, units: int) -> Mechanism | None:
        """Return the mechanism that releases a column with a number of units."""
        domain = self._domains[self._evidence.names.index(name)]
        return mechanism_under(domain, self._part(units / self.units))

    def even(self, units: int) -> float:
        """Return the share that an even division of a number of units over all columns explains."""
        return self._explained_at(dict.fromkeys(range(self._columns), self.units + units - 1))

    def unprotected(self) -> float:
        """Return the share that columns explain without noise, by the same formula."""
        laws = [[np.eye(domain.size)] for domain in self._domains]
        variances, shared = _joined(self._evidence, laws)
        return _explained(self._evidence, variances, shared, list(range(self._columns)))

    def best(self, units: int) -> Division:
        """Return the best division found for a number of units.

        Args:
            units: Units to divide.
        """
        division = self._moved(max(self._among(units), key=self._explained_by))
        shares = {self._evidence.names[j]: share for j, share in sorted(division.items())}
        return Division(shares, self._explained_by(division))

    def _among(self, units: int) -> list[dict[int, int]]:
        """Return even divisions among 1, 2, ... columns, selected greedily."""
        columns: list[int] = []
        divisions = []
        while len(columns) < min(self._columns, units):
            rest = [j for j in range(self._columns) if j not in columns]
            columns.append(max(rest, key=lambda j: self._explained_by(_even([*columns, j], units))))
            divisions.append(_even(columns, units))
        return divisions

    def _moved(self, shares: dict[int, int]) -> dict[int, int]:
        value = self._explained_by(shares)
        while True:
            moves = [
                _move(shares, source, other, count)
                for source in shares
                for other in range(self._columns)
                if other != source
                for count in {1, shares[source]}
            ]
            best = max(moves, key=self._explained_by, default=shares)
            if self._explained_by(best) <= value + _MIN_GAIN:
                return shares
            shares, value = best, self._explained_by(best)

    def _part(self, part: float) -> Caps:
        step, whole = self._total.step, self._total.whole
        return Caps(step and step * part, whole and whole * part)

    def _explained_by(self, shares: Mapping[int, int]) -> float:
        return self._explained_at({j: share - 1 for j, share in shares.items()})

    def _explained_at(self, levels: Mapping[int, int]) -> float:
        picked = [j * self._levels + level for j, level in levels.items()]
        return _explained(self._evidence, self._variances, self._shared, picked)


def explained(evidence: Evidence, name: str, laws: Sequence[np.ndarray]) -> np.ndarray:
    """Return the share of the label's variance that one column explains under each channel.

    Args:
        evidence: Evidence of the columns.
        name: The column.
        laws: Pr[y | x] of each channel.
    """
    own = [evidence.names.index(name)]
    alone = replace(
        evidence, names=(name,), marginals=evidence.marginals[own],
        means=evidence.means[:, own], codes=None,
    )  # fmt: skip
    variances, _ = _joined(alone, [laws])
    return np.asarray(variances.sum(axis=0) / evidence.whole.sum())


def explained_together(evidence: Evidence, laws: Sequence[np.ndarray]) -> float:
    """Return the share of the label's variance that all columns explain together.

    Args:
        evidence: Evidence of the columns.
        laws: Pr[y | x] by column.
    """
    variances, shared = _joined(evidence, [[law] for law in laws])
    return _explained(evidence, variances, shared, list(range(len(laws))))


def _explained(
    evidence: Evidence, variances: np.ndarray, shared: np.ndarray | None, picked: list[int]
) -> float:
    share = 0.0
    for t in range(len(variances)):
        own = variances[t, picked]
        informative = own > 0
        if not informative.any():
            continue
        own, at = own[informative], np.array(picked)[informative]
        table = np.diag(own)
        if shared is not None:
            table = shared[t][np.ix_(at, at)].copy()
            np.fill_diagonal(table, own)
        # A minimal ridge: columns may be copies of each other.
        table += np.eye(len(own)) * own.max() * 1e-9
        share += float(own @ np.linalg.solve(table, own))
    return min(share / float(evidence.whole.sum()), 1.0)


def _joined(
    evidence: Evidence, laws: Sequence[Sequence[np.ndarray | None]]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return Var f and, over sampled rows, Cov(E[f | x]) of every column under each of its laws.

    Returns:
        Shapes (targets, columns x laws) and (targets, columns x laws, columns x laws).
    """
    targets, columns, size = evidence.means.shape
    levels = len(laws[0])
    variances = np.zeros((targets, columns * levels))
    posterior_means = np.zeros((targets, columns * levels, size))
    shares = evidence.marginals / evidence.marginals.sum(axis=1, keepdims=True)
    for j in range(columns):
        for i, law in enumerate(laws[j]):
            if law is None:
                continue
            # Columns with fewer values than the largest domain have zeros above their range.
            values = slice(len(law))
            likely = np.maximum(shares[j, values] @ law, 1e-300)
            for t in range(targets):
                prediction = (shares[j, values] * evidence.means[t, j, values]) @ law / likely
                place = j * levels + i
                variances[t, place] = float(likely @ prediction**2 - (likely @ prediction) ** 2)
                posterior_means[t, place, values] = law @ prediction
    if evidence.codes is None:
        return variances, None
    home = np.repeat(np.arange(columns), levels)
    shared = np.empty((targets, len(home), len(home)))
    for t in range(targets):
        means = np.empty((len(evidence.codes), len(home)))
        for place, column in enumerate(home.tolist()):
            means[:, place] = posterior_means[t, place][evidence.codes[:, column]]
        means -= means.mean(axis=0)
        shared[t] = means.T @ means / len(means)
    return variances, shared


def _even(columns: Sequence[int], units: int) -> dict[int, int]:
    share, more = divmod(units, len(columns))
    return {j: share + (at < more) for at, j in enumerate(columns)}


def _move(shares: Mapping[int, int], source: int, other: int, count: int) -> dict[int, int]:
    moved = {**shares, source: shares[source] - count, other: shares.get(other, 0) + count}
    return {j: share for j, share in moved.items() if share}
