"""Which columns to release, and how to divide a total loss over them.

What a column tells through its channel is the best prediction f of the label from its released
value alone, f(y) = E[label | y], exact from the channel and the sample's counts. What several tell
together is the share of the label's variance that the best weighted sum of these predictions
explains, noise being independent from column to column:

    R2 = c' A^-1 c / Var(label),  c_j = A_jj = Var f_j,  A_jk = Cov(E[f_j | x_j], E[f_k | x_k])

so that columns which say the same are not counted twice. Classes are summed over their indicators.

What is told grows faster than the loss where the loss is small, so that a step by step division
from nothing misleads: first the best columns are found for an even division among 1, 2, ... of
them, then shares move from one column to another as long as that helps.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Geometric, Mechanism
from opboost_ops.mechanisms.geometric import LEAST_EPSILON
from opboost_ops.privacy.planner import Caps, designed_under, rounded_down

#: Shares into which a total is cut: fewer where channels take longer to make.
UNITS, UNITS_OF_LARGE, _LARGE = 16, 8, 32

#: Rows' worth of the overall mean in each value's mean label.
_PRIOR_ROWS = 1.0

#: A gain of less is none.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Evidence:
    """Public knowledge of columns and label.

    Attributes:
        names: Of the columns.
        marginals: How many rows have each value, float64, shape (columns, |D|).
        means: The label's mean at each value less its overall mean, by target, float64, shape
            (targets, columns, |D|).
        whole: The label's variance by target, shape (targets,).
        codes: Values from 0 of sampled rows, shape (n, columns); None where columns are declared
            to say independent things.
    """

    names: tuple[str, ...]
    marginals: np.ndarray
    means: np.ndarray
    whole: np.ndarray
    codes: np.ndarray | None


@dataclass(frozen=True)
class Division:
    """A total loss over columns.

    Attributes:
        shares: Units by column, for those that are released; they sum up to the total's.
        kept: Share of the label's variance that all of them explain.
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
    """Evidence of a public sample.

    Args:
        names: Of the columns.
        codes: Their values from 0, int64, shape (n, columns).
        label: Numbers or class indices, shape (n,).
        classes: How many classes; 0 of a number.
        size: |D| of the largest domain.
        predicted: Predictions of the label by the label holder's own columns, shape (n,) or
            (n, classes): then columns are judged by what they say of the rest.
    """
    targets = [(label == c).astype(float) for c in range(classes)] if classes else [label]
    if predicted is not None:
        targets = [
            target - of
            for target, of in zip(targets, predicted.reshape(len(label), -1).T, strict=True)
        ]
    marginals = np.array([np.bincount(column, minlength=size) for column in codes.T], dtype=float)
    means = np.empty((len(targets), len(names), size))
    for t, target in enumerate(targets):
        off = target - target.mean()
        for j, column in enumerate(codes.T):
            sums = np.bincount(column, off, minlength=size)
            means[t, j] = sums / (marginals[j] + _PRIOR_ROWS)
    whole = np.array([target.var() for target in targets])
    return Evidence(tuple(names), marginals, means, whole, codes)


def independent(importances: Mapping[str, float], sizes: Sequence[int]) -> Evidence:
    """Evidence of declared importances: shares of the label's variance, of even, unrelated columns.

    Args:
        importances: By column, positive; only their ratios count.
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
    """The best mechanism of one column under caps; None if they leave no channel.

    Geometric where loss(1) alone is capped; else a channel designed for both caps where there is
    one, and geometric below both where there is none.
    """
    if (designed := designed_under(domain, caps)) is not None:
        return designed
    far = math.inf if caps.whole is None else caps.whole / (domain.size - 1)
    epsilon = rounded_down(min(caps.step or far, far), 6)
    return Geometric(epsilon=epsilon) if epsilon >= LEAST_EPSILON else None


class Divider:
    """All divisions of one total.

    Args:
        evidence: Of the columns.
        domains: Theirs.
        total: Caps on the sum over columns.
        progress: Called with how many channels are made, and of how many.

    Attributes:
        units: Into how many shares the total is cut.
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
        # Of the even division over all columns, a share of each number of units.
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
        self._told, self._shared = _joined(evidence, [laws[domain] for domain in domains])

    def mechanism(self, name: str, units: int) -> Mechanism | None:
        """The mechanism that releases a column of so many units."""
        domain = self._domains[self._evidence.names.index(name)]
        return mechanism_under(domain, self._part(units / self.units))

    def even(self, units: int) -> float:
        """The value that the even division of so many units over all columns keeps."""
        return self._kept(dict.fromkeys(range(self._columns), self.units + units - 1))

    def unprotected(self) -> float:
        """The value that columns keep without any noise, by the same formula."""
        laws = [[np.eye(domain.size)] for domain in self._domains]
        variances, shared = _joined(self._evidence, laws)
        return _together(self._evidence, variances, shared, list(range(self._columns)))

    def best(self, units: int) -> Division:
        """The best division that is found of so many units.

        Args:
            units: Of the total's.
        """
        division = self._moved(max(self._among(units), key=self._kept_of))
        shares = {self._evidence.names[j]: share for j, share in sorted(division.items())}
        return Division(shares, self._kept_of(division))

    def _among(self, units: int) -> list[dict[int, int]]:
        """Even divisions among the best 1, 2, ... columns, each found by adding one."""
        columns: list[int] = []
        divisions = []
        while len(columns) < min(self._columns, units):
            rest = [j for j in range(self._columns) if j not in columns]
            columns.append(max(rest, key=lambda j: self._kept_of(_even([*columns, j], units))))
            divisions.append(_even(columns, units))
        return divisions

    def _moved(self, shares: dict[int, int]) -> dict[int, int]:
        value = self._kept_of(shares)
        while True:
            moves = [
                _move(shares, source, other, count)
                for source in shares
                for other in range(self._columns)
                if other != source
                for count in {1, shares[source]}
            ]
            best = max(moves, key=self._kept_of, default=shares)
            if self._kept_of(best) <= value + _NOTHING:
                return shares
            shares, value = best, self._kept_of(best)

    def _part(self, part: float) -> Caps:
        step, whole = self._total.step, self._total.whole
        return Caps(step and step * part, whole and whole * part)

    def _kept_of(self, shares: Mapping[int, int]) -> float:
        return self._kept({j: share - 1 for j, share in shares.items()})

    def _kept(self, levels: Mapping[int, int]) -> float:
        picked = [j * self._levels + level for j, level in levels.items()]
        return _together(self._evidence, self._told, self._shared, picked)


def explained(evidence: Evidence, name: str, laws: Sequence[np.ndarray]) -> np.ndarray:
    """Share of the label's variance that a column alone explains under each law.

    Args:
        evidence: Of the columns.
        name: The column.
        laws: Pr[y | x], each for one release.
    """
    own = [evidence.names.index(name)]
    alone = replace(
        evidence, names=(name,), marginals=evidence.marginals[own],
        means=evidence.means[:, own], codes=None,
    )  # fmt: skip
    variances, _ = _joined(alone, [laws])
    return np.asarray(variances.sum(axis=0) / evidence.whole.sum())


def kept(evidence: Evidence, laws: Sequence[np.ndarray]) -> float:
    """Share of the label's variance that all columns together explain.

    Args:
        evidence: Of the columns.
        laws: Pr[y | x] by column.
    """
    variances, shared = _joined(evidence, [[law] for law in laws])
    return _together(evidence, variances, shared, list(range(len(laws))))


def _together(
    evidence: Evidence, variances: np.ndarray, shared: np.ndarray | None, picked: list[int]
) -> float:
    share = 0.0
    for t in range(len(variances)):
        own = variances[t, picked]
        here = own > 0
        if not here.any():
            continue
        own, at = own[here], np.array(picked)[here]
        table = np.diag(own)
        if shared is not None:
            table = shared[t][np.ix_(at, at)].copy()
            np.fill_diagonal(table, own)
        # The least of ridges: columns may be copies of one another.
        table += np.eye(len(own)) * own.max() * 1e-9
        share += float(own @ np.linalg.solve(table, own))
    return min(share / float(evidence.whole.sum()), 1.0)


def _joined(
    evidence: Evidence, laws: Sequence[Sequence[np.ndarray | None]]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Var f and, over sampled rows, Cov(E[f | x]) of every column under every law of its own.

    Returns:
        Shapes (targets, columns x laws) and (targets, columns x laws, columns x laws).
    """
    targets, columns, size = evidence.means.shape
    levels = len(laws[0])
    variances = np.zeros((targets, columns * levels))
    back = np.zeros((targets, columns * levels, size))
    shares = evidence.marginals / evidence.marginals.sum(axis=1, keepdims=True)
    for j in range(columns):
        for i, law in enumerate(laws[j]):
            if law is None:
                continue
            # Columns with fewer values than the largest domain have none above.
            values = slice(len(law))
            likely = np.maximum(shares[j, values] @ law, 1e-300)
            for t in range(targets):
                told_by = (shares[j, values] * evidence.means[t, j, values]) @ law / likely
                place = j * levels + i
                variances[t, place] = float(likely @ told_by**2 - (likely @ told_by) ** 2)
                back[t, place, values] = law @ told_by
    if evidence.codes is None:
        return variances, None
    home = np.repeat(np.arange(columns), levels)
    shared = np.empty((targets, len(home), len(home)))
    for t in range(targets):
        means = np.empty((len(evidence.codes), len(home)))
        for place, column in enumerate(home.tolist()):
            means[:, place] = back[t, place][evidence.codes[:, column]]
        means -= means.mean(axis=0)
        shared[t] = means.T @ means / len(means)
    return variances, shared


def _even(columns: Sequence[int], units: int) -> dict[int, int]:
    share, more = divmod(units, len(columns))
    return {j: share + (at < more) for at, j in enumerate(columns)}


def _move(shares: Mapping[int, int], source: int, other: int, count: int) -> dict[int, int]:
    moved = {**shares, source: shares[source] - count, other: shares.get(other, 0) + count}
    return {j: share for j, share in moved.items() if share}
