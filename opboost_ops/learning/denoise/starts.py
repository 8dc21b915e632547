"""Starting points of the latent-class model, and the selection among their fits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.learning.denoise.classes import Classes, Draws, LatentRows, Smoothing
from opboost_ops.learning.denoise.rows import Rows

#: Share of the uniform distribution in the estimated distribution of original values.
_UNIFORM = 0.001

#: Weight of smoothing in rows, which is less for many classes.
_ALPHA, _ALPHA_MANY_CLASSES, _MANY_CLASSES = 2.0, 0.5, 100

#: One in this many rows is held out; steps between scores on these rows; scores without an
#: improvement before the fit stops; most steps.
_HELD_OUT, _SCORE_INTERVAL, _PATIENCE, _MAX_STEPS = 6, 10, 3, 200

#: Free classes must be better than tied ones by this many standard errors.
_STANDARD_ERRORS = 2.0

#: Models of less weight are omitted.
_MIN_WEIGHT = 0.05

#: Steps of `estimate_shares`, which converges within some tens.
_STEPS = 200


@dataclass(frozen=True)
class Start:
    """A starting point.

    Attributes:
        kind: ``tied``: each class belongs to one level of the label and one group of predictions
            from own columns. ``untied``: classes start so, but may change. ``random``: classes
            start at random.
        levels: Number of levels of a numeric label; 0 for classes.
        count: Classes per level (and group); for ``random``, the number of classes.
        fast: Steps are lengthened for weak channels.
    """

    kind: str
    levels: int
    count: int
    fast: bool = True


def grid(with_own: bool, regression: bool) -> tuple[Start, ...]:
    """Return the starting points to try.

    Args:
        with_own: The label holder has columns of its own.
        regression: The label is numeric; otherwise levels are classes, and some starts coincide.
    """
    if with_own:
        starts = [Start("tied", n, s) for n in (3, 6) for s in (1, 2)]
        starts.append(Start("random", 6, 60, fast=False))
    else:
        starts = [
            Start("tied", 5, 1),
            Start("tied", 12, 1),
            Start("tied", 5, 1, fast=False),
            Start("tied", 5, 4),
            Start("untied", 5, 4),
            Start("random", 12, 60),
            Start("random", 12, 120),
        ]
    if not regression:
        starts = [replace(start, levels=0) for start in starts]
    return tuple(dict.fromkeys(starts))


def smoothing_of(rows: Rows, start: Start) -> Smoothing:
    """Return the smoothing and the step lengths of a start.

    The step length of a column is 1 / rho, where rho is the second singular value of
    b(x) K(x, y) / sqrt(b(x) p(y)). It measures how much of the difference between values the
    channel preserves.
    """
    original, speed = {}, {}
    for name, law in rows.laws.items():
        counts = np.bincount(rows.noisy[name], minlength=law.shape[1]).astype(float)
        estimate = (1 - _UNIFORM) * estimate_shares(counts, law) + _UNIFORM / len(law)
        original[name] = estimate
        joint = np.sqrt(estimate)[:, None] * law / np.sqrt(np.maximum(estimate @ law, 1e-300))
        correlation = np.linalg.svd(joint, compute_uv=False)[1]
        speed[name] = 1.0 / max(float(correlation), 1e-3) if start.fast else 1.0
    own = {
        name: np.bincount(codes, minlength=rows.sizes[name]) / len(rows)
        for name, codes in rows.own.items()
    }
    level = np.bincount(rows.level, minlength=rows.levels) / len(rows)
    width = start.count * (rows.levels if start.kind != "random" else 1)
    alpha = _ALPHA_MANY_CLASSES if width >= _MANY_CLASSES else _ALPHA
    return Smoothing(alpha, original, own, level, speed)


def initial_classes(rows: Rows, start: Start, smoothing: Smoothing, draws: Draws) -> Classes:
    """Return the classes of a starting point.

    Args:
        rows: Rows with levels of the label; for a tied start, combinations of level and group.
        start: The starting point.
        smoothing: From `smoothing_of`.
        draws: Random numbers.
    """
    if start.kind == "random":
        return _random_classes(rows, start, smoothing, draws)
    width, alpha = rows.levels * start.count, smoothing.alpha
    home = np.repeat(np.arange(rows.levels), start.count)
    counts = np.bincount(rows.level, minlength=rows.levels).astype(float)
    theta = {}
    for name, law in rows.laws.items():
        observed = count_codes(rows.noisy[name], law.shape[1], rows.level, rows.levels)
        original = smoothing.original[name][:, None]
        columns = (estimate_shares(observed, law) * counts + alpha * original) / (counts + alpha)
        theta[name] = columns[:, home]
        if start.count > 1:
            theta[name] = _tilt(theta[name], draws, f"{start}/{name}")
    psi = {}
    for name, codes in rows.own.items():
        table = count_codes(codes, rows.sizes[name], rows.level, rows.levels)
        share = alpha * smoothing.own[name][:, None]
        psi[name] = ((table + share) / (counts + alpha))[:, home]
    phi = np.zeros((rows.levels, width))
    phi[home, np.arange(width)] = 1.0
    if start.kind == "untied":
        phi = 0.8 * phi + 0.2 * smoothing.level[:, None]
    pi = np.maximum(counts[home], 1e-9)
    return Classes(pi / pi.sum(), theta, psi, phi, fixed=start.kind == "tied")


@dataclass(frozen=True, eq=False)
class WeightedModel:
    """A fitted model with its weight.

    Attributes:
        start: Its starting point.
        classes: Its parameters, fitted to all rows.
        weight: Probability that an imputation is drawn from it.
    """

    start: Start
    classes: Classes
    weight: float


def fit_models(candidates: Sequence[tuple[Start, Rows]], draws: Draws) -> tuple[WeightedModel, ...]:
    """Fit all starts to five sixths of the rows, weight them by the rest, and refit to all rows.

    Args:
        candidates: Starting points, each with the rows and its levels of the label.
        draws: Random numbers.

    Returns:
        Models with a weight of at least 0.05, in descending order; weights sum to 1.
    """
    rows = len(candidates[0][1])
    held_out = draws.uniform("held out", 0, rows) < 1 / _HELD_OUT
    if not held_out.any() or held_out.all():
        held_out = np.arange(rows) % _HELD_OUT == 0
    fits = [_try_start(start, data, held_out, draws) for start, data in candidates]
    weights = _weights([start.kind == "tied" for start, _ in candidates], [s for s, _ in fits])
    models = []
    for i in np.argsort(-weights, kind="stable"):
        if weights[i] > 0:
            start, data = candidates[i]
            classes = _fit(start, data, fits[i][1], draws)
            models.append(WeightedModel(start, classes, float(weights[i])))
    return tuple(models)


def count_codes(codes: np.ndarray, size: int, groups: np.ndarray, count: int) -> np.ndarray:
    """Count each code in each group, float64, shape (size, count).

    Args:
        codes: Codes from 0, shape (n,).
        size: Number of codes.
        groups: Groups from 0, shape (n,).
        count: Number of groups.
    """
    counts = np.bincount(codes * count + groups, minlength=size * count)
    return counts.reshape(size, count).astype(float)


def estimate_shares(counts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Estimate the shares of original values by maximum likelihood, with the EM algorithm.

    Args:
        counts: Number of releases per output, shape (m,), or (m, groups) for several groups.
        law: Pr[output | value], shape (k, m).

    Returns:
        Shares, float64, shape (k,) or (k, groups); equal shares for a group without rows.
    """
    total = counts.sum(axis=0)
    observed = np.where(total > 0, counts, law.mean(axis=0).reshape(-1, *[1] * (counts.ndim - 1)))
    observed = observed / observed.sum(axis=0)
    estimate = np.full((len(law), *counts.shape[1:]), 1 / len(law))
    for _ in range(_STEPS):
        estimate = estimate * (law @ (observed / (law.T @ estimate)))
    return estimate


def _random_classes(rows: Rows, start: Start, smoothing: Smoothing, draws: Draws) -> Classes:
    width = start.count
    theta = {
        name: _tilt(np.repeat(original[:, None], width, axis=1), draws, f"{start}/{name}")
        for name, original in smoothing.original.items()
    }
    psi = {}
    for name, share in smoothing.own.items():
        table = share[:, None] * np.exp(draws.normal(f"{start}/own/{name}", len(share), width) / 2)
        psi[name] = table / table.sum(axis=0)
    tilt = np.exp(draws.normal(f"{start}/level", rows.levels, width) / 2)
    phi = smoothing.level[:, None] * tilt
    return Classes(np.full(width, 1 / width), theta, psi, phi / phi.sum(axis=0), fixed=False)


def _tilt(theta: np.ndarray, draws: Draws, purpose: str) -> np.ndarray:
    """Shift the distribution of each class up or down at random."""
    x = np.arange(len(theta), dtype=float)[:, None]
    mean = (x * theta).sum(axis=0)
    spread = np.sqrt(np.maximum((x**2 * theta).sum(axis=0) - mean**2, 1e-12))
    # Use logarithms, because the tilt of a class with a single value would overflow.
    with np.errstate(divide="ignore"):
        logs = np.log(theta) + draws.normal(purpose, theta.shape[1]) * (x - mean) / spread
    tilted = np.exp(logs - logs.max(axis=0))
    return np.asarray(tilted / tilted.sum(axis=0))


def _weights(tied: Sequence[bool], scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the weights of models from their scores on held-out rows, all of one family.

    The free family must be better than the tied one by more than chance: its best model must exceed
    the best tied model by two standard errors, compared row by row. Tied classes preserve the
    relation to the label; free classes can blur it, which scores hardly show under strong noise.
    """
    totals = np.array([score.sum() for score in scores])
    family = np.array(tied)
    if family.any() and not family.all():
        free, constrained = (np.flatnonzero(of) for of in (~family, family))
        gain = (
            scores[free[totals[free].argmax()]] - scores[constrained[totals[constrained].argmax()]]
        )
        better = gain.sum() > _STANDARD_ERRORS * gain.std() * np.sqrt(len(gain))
        totals[family if better else ~family] = -np.inf
    weights = np.exp(totals - totals.max())
    weights /= weights.sum()
    weights[weights < _MIN_WEIGHT] = 0.0
    return np.asarray(weights / weights.sum())


def _try_start(
    start: Start, data: Rows, held_out: np.ndarray, draws: Draws
) -> tuple[np.ndarray, int]:
    fit, rest = data.at(~held_out), data.at(held_out)
    smoothing = smoothing_of(fit, start)
    classes = initial_classes(fit, start, smoothing, draws)
    learnt, scored = LatentRows(fit, classes), LatentRows(rest, classes)
    best, at = scored.scores(classes), 0
    for done in range(1, _MAX_STEPS + 1):
        classes = learnt.step(classes, smoothing)
        if done % _SCORE_INTERVAL == 0:
            score = scored.scores(classes)
            if score.mean() > best.mean():
                best, at = score, done
            elif done - at >= _PATIENCE * _SCORE_INTERVAL:
                break
    return best, at


def _fit(start: Start, data: Rows, steps: int, draws: Draws) -> Classes:
    smoothing = smoothing_of(data, start)
    classes = initial_classes(data, start, smoothing, draws)
    latent = LatentRows(data, classes)
    for _ in range(steps):
        classes = latent.step(classes, smoothing)
    return classes
