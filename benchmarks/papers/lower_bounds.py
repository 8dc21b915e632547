"""Lower bounds on epsilon, from how often an attacker tells two neighbouring tables apart."""

from collections.abc import Callable, Mapping
from math import exp
from typing import Any

import numpy as np

#: Heads of a table's last columns.
BOUNDS = ("epsilon, lower bound", "by Gaussians", "declared")


def bounds(found: Mapping[str, Any], declared: float) -> tuple[str, ...]:
    """The cells below them."""
    three = (found["lower_bound"], found["gaussian_bound"], declared)
    return tuple(f"{bound:.3f}" for bound in three)


def audited(
    score: Callable[[bool], float], runs: int, delta: float, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """A lower bound on epsilon, at 95 % confidence, by so many runs on each of both tables.

    Args:
        score: The attacker's, of a run with what is guessed, or without.
        runs: A side that are counted; a quarter more choose the threshold of the guess.
        delta: Declared.
        progress: Called with how many are done, and of how many.
    """
    count = runs + runs // 4
    found = np.empty((2, count))
    for there in (False, True):
        for at in range(count):
            found[int(there), at] = score(there)
            if at % 100 == 99:
                progress(there * count + at + 1, 2 * count)
    return {"runs": runs, "delta": delta, **compared(found[0], found[1], runs // 4, delta)}


def compared(without: np.ndarray, having: np.ndarray, pilot: int, delta: float) -> dict[str, Any]:
    """A lower bound on epsilon, at 95 % confidence, from an attacker's scores of both tables.

    Args:
        without: Scores of runs on the one table, shape (pilot + runs,).
        having: Scores of runs on the other one, which are expected to be greater.
        pilot: By how many of them the threshold is chosen; the bound comes from the others.
        delta: Declared.
    """
    steps = np.quantile(np.concatenate([without[:pilot], having[:pilot]]), np.linspace(0, 1, 101))

    def bound(at: float, begin: int, end: int) -> tuple[float, int, int]:
        """From both statements, that the row is there and that it is not: the better one."""
        false, true = (int((side[begin:end] > at).sum()) for side in (without, having))
        count = end - begin
        said = lower_bound(true, false, count, delta)
        denied = lower_bound(count - false, count - true, count, delta)
        return max(said, denied), true, false

    threshold = float(max(steps, key=lambda at: bound(float(at), 0, pilot)[0]))
    epsilon, true, false = bound(threshold, pilot, len(without))
    there, not_there = [int((side[pilot:] > steps[50]).sum()) for side in (having, without)]
    return {
        "said_when_there": true,
        "said_when_not": false,
        "lower_bound": epsilon,
        "gaussian_bound": gaussian_bound(there, not_there, len(without) - pilot, delta),
        "mean_difference": float(having[pilot:].mean() - without[pilot:].mean()),
    }


def lower_bound(true: int, false: int, count: int, delta: float) -> float:
    """The least epsilon that agrees with so many right and wrong answers, at 95 %.

    Clopper and Pearson's intervals at 97.5 % on either side: P(true) <= e^epsilon P(false) + delta.

    Args:
        true: Of `count` runs with what is guessed, in how many it was guessed.
        false: Of as many without.
        count: Runs a side.
        delta: Declared.
    """
    from scipy.stats import binomtest

    least = binomtest(true, count).proportion_ci(0.95, "exact").low
    most = binomtest(false, count).proportion_ci(0.95, "exact").high
    return float(max(0.0, np.log((least - delta) / most))) if least > delta else 0.0


def gaussian_bound(true: int, false: int, count: int, delta: float) -> float:
    """The same for a mechanism whose best attack tells two Gaussians apart.

    Both error rates bound the distance of the Gaussians, and the distance bounds epsilon at each
    delta (Nasr et al., Tight Auditing of Differentially Private Machine Learning, 2023). So an
    attack that errs as often in both directions says as much as a rare event, by fewer models.

    Args:
        true: As for `lower_bound`.
        false: As for `lower_bound`.
        count: Runs a side.
        delta: Declared.
    """
    from scipy.stats import binomtest, norm

    missed = binomtest(count - true, count).proportion_ci(0.95, "exact").high
    wrong = binomtest(false, count).proportion_ci(0.95, "exact").high
    return epsilon_of_gaussians(-float(norm.ppf(missed) + norm.ppf(wrong)), delta)


def epsilon_of_gaussians(mu: float, delta: float) -> float:
    """Epsilon at delta of two Gaussians of variance 1 whose means are mu apart.

    Args:
        mu: At most 0 where nothing tells them apart.
        delta: Between 0 and 1.
    """
    from scipy.optimize import brentq

    if mu <= 0 or excess(mu, 0.0, delta) <= 0:
        return 0.0
    return float(brentq(lambda epsilon: excess(mu, epsilon, delta), 0, 50))


def excess(mu: float, epsilon: float, delta: float) -> float:
    """By how much two such Gaussians exceed delta at epsilon (Balle and Wang, 2018).

    Args:
        mu: How far their means are apart.
        epsilon: At which delta is wanted.
        delta: To compare with.
    """
    from scipy.stats import norm

    first = norm.cdf(mu / 2 - epsilon / mu)
    return float(first - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta)
