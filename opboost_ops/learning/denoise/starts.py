"""Starts of the estimate: what a class stands for at first, and which start is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.learning.denoise.classes import Classes, Draws, LatentRows, Smoothing
from opboost_ops.learning.denoise.rows import Rows

#: The least share of the uniform law in what a column is taken to be behind its noise.
_UNIFORM = 0.001

#: Rows' worth of smoothing; less where there are many classes.
_ALPHA, _ALPHA_MANY, _MANY = 2.0, 0.5, 100

#: Share of the rows that scores, how often it does, for how many scores without a better one the
#: estimate goes on, and at most how many steps it takes.
_HELD, _EVERY, _PATIENCE, _MOST = 6, 10, 3, 200

#: By how many standard errors free classes must be better than tied ones.
_ERRORS = 2.0

#: Models of less weight are dropped.
_LEAST = 0.05

#: Steps of the estimate; it moves little after some tens.
_STEPS = 200


@dataclass(frozen=True)
class Start:
    """One of the grid.

    Attributes:
        kind: ``tied``: a class belongs to one level of the label, and to one group of what own
            columns predict. ``untied``: it starts so. ``random``: it starts anywhere.
        levels: Of a label that is a number; classes have their own.
        count: Classes within each level (and group), or in all for ``random``.
        fast: Whether steps are as long as the channel's weakness asks for.
    """

    kind: str
    levels: int
    count: int
    fast: bool = True


def grid(with_own: bool, regression: bool) -> tuple[Start, ...]:
    """The starts that are tried.

    Args:
        with_own: Whether the label holder has columns of its own.
        regression: Otherwise the label's levels are its classes, and starts coincide.
    """
    if with_own:
        wanted = [Start("tied", n, s) for n in (3, 6) for s in (1, 2)]
        wanted.append(Start("random", 6, 60, fast=False))
    else:
        wanted = [
            Start("tied", 5, 1),
            Start("tied", 12, 1),
            Start("tied", 5, 1, fast=False),
            Start("tied", 5, 4),
            Start("untied", 5, 4),
            Start("random", 12, 60),
            Start("random", 12, 120),
        ]
    if not regression:
        wanted = [replace(start, levels=0) for start in wanted]
    return tuple(dict.fromkeys(wanted))


def smoothing_of(rows: Rows, start: Start) -> Smoothing:
    """How a start is smoothed and sped up.

    A column's speed is 1 / rho, rho being the second singular value of
    b(x) K(x, y) / sqrt(b(x) p(y)): how much of the best-kept contrast between values a release
    keeps.
    """
    behind, speed = {}, {}
    for name, law in rows.laws.items():
        counts = np.bincount(rows.noisy[name], minlength=law.shape[1]).astype(float)
        estimate = (1 - _UNIFORM) * shares(counts, law) + _UNIFORM / len(law)
        behind[name] = estimate
        joint = np.sqrt(estimate)[:, None] * law / np.sqrt(np.maximum(estimate @ law, 1e-300))
        correlation = np.linalg.svd(joint, compute_uv=False)[1]
        speed[name] = 1.0 / max(float(correlation), 1e-3) if start.fast else 1.0
    own = {
        name: np.bincount(codes, minlength=rows.sizes[name]) / len(rows)
        for name, codes in rows.own.items()
    }
    level = np.bincount(rows.level, minlength=rows.levels) / len(rows)
    width = start.count * (rows.levels if start.kind != "random" else 1)
    alpha = _ALPHA_MANY if width >= _MANY else _ALPHA
    return Smoothing(alpha, behind, own, level, speed)


def classes_of(rows: Rows, start: Start, smoothing: Smoothing, draws: Draws) -> Classes:
    """The first classes of a start.

    Args:
        rows: With the label's levels; of a tied start, those are level and group.
        start: Of the grid.
        smoothing: Of `smoothing_of`.
        draws: For what is random in it.
    """
    if start.kind == "random":
        return _random(rows, start, smoothing, draws)
    width, alpha = rows.levels * start.count, smoothing.alpha
    home = np.repeat(np.arange(rows.levels), start.count)
    counts = np.bincount(rows.level, minlength=rows.levels).astype(float)
    theta = {}
    for name, law in rows.laws.items():
        observed = counted(rows.noisy[name], law.shape[1], rows.level, rows.levels)
        behind = smoothing.behind[name][:, None]
        columns = (shares(observed, law) * counts + alpha * behind) / (counts + alpha)
        theta[name] = columns[:, home]
        if start.count > 1:
            theta[name] = _tilted(theta[name], draws, f"{start}/{name}")
    psi = {}
    for name, codes in rows.own.items():
        table = counted(codes, rows.sizes[name], rows.level, rows.levels)
        share = alpha * smoothing.own[name][:, None]
        psi[name] = ((table + share) / (counts + alpha))[:, home]
    phi = np.zeros((rows.levels, width))
    phi[home, np.arange(width)] = 1.0
    if start.kind == "untied":
        phi = 0.8 * phi + 0.2 * smoothing.level[:, None]
    pi = np.maximum(counts[home], 1e-9)
    return Classes(pi / pi.sum(), theta, psi, phi, fixed=start.kind == "tied")


def _random(rows: Rows, start: Start, smoothing: Smoothing, draws: Draws) -> Classes:
    width = start.count
    theta = {
        name: _tilted(np.repeat(behind[:, None], width, axis=1), draws, f"{start}/{name}")
        for name, behind in smoothing.behind.items()
    }
    psi = {}
    for name, share in smoothing.own.items():
        table = share[:, None] * np.exp(draws.normal(f"{start}/own/{name}", len(share), width) / 2)
        psi[name] = table / table.sum(axis=0)
    tilt = np.exp(draws.normal(f"{start}/level", rows.levels, width) / 2)
    phi = smoothing.level[:, None] * tilt
    return Classes(np.full(width, 1 / width), theta, psi, phi / phi.sum(axis=0), fixed=False)


def _tilted(theta: np.ndarray, draws: Draws, purpose: str) -> np.ndarray:
    """Each class moved up or down its column, at random."""
    x = np.arange(len(theta), dtype=float)[:, None]
    mean = (x * theta).sum(axis=0)
    spread = np.sqrt(np.maximum((x**2 * theta).sum(axis=0) - mean**2, 1e-12))
    # In logarithms: a class of a single value has no spread, and its tilts exceed all floats.
    with np.errstate(divide="ignore"):
        logs = np.log(theta) + draws.normal(purpose, theta.shape[1]) * (x - mean) / spread
    tilted = np.exp(logs - logs.max(axis=0))
    return np.asarray(tilted / tilted.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Chosen:
    """A model that is drawn from.

    Attributes:
        start: Where it began.
        classes: Fitted to all rows that were given.
        weight: With which probability a draw is made from it.
    """

    start: Start
    classes: Classes
    weight: float


def choose(candidates: Sequence[tuple[Start, Rows]], draws: Draws) -> tuple[Chosen, ...]:
    """Fit all starts to five sixths of the rows, weigh them by the rest, refit those that count.

    Args:
        candidates: Starts, each with the rows and its own levels of the label.
        draws: For what is random.

    Returns:
        Those of at least 0.05 of the weight, weights summing to 1, heaviest first.
    """
    rows = len(candidates[0][1])
    held_out = draws.uniform("held out", 0, rows) < 1 / _HELD
    if not held_out.any() or held_out.all():
        held_out = np.arange(rows) % _HELD == 0
    tried = [_tried(start, data, held_out, draws) for start, data in candidates]
    weights = _weights([start.kind == "tied" for start, _ in candidates], [s for s, _ in tried])
    models = []
    for i in np.argsort(-weights, kind="stable"):
        if weights[i] > 0:
            start, data = candidates[i]
            classes = _fitted(start, data, tried[i][1], draws)
            models.append(Chosen(start, classes, float(weights[i])))
    return tuple(models)


def _weights(tied: Sequence[bool], scores: Sequence[np.ndarray]) -> np.ndarray:
    """Weights of models by their scores of held-out rows, all of one family.

    The free family must be better by more than chance: the best model of one is compared with the
    best of the other, row by row, and two standard errors decide. Classes of which each belongs to
    one level of the label keep what the label says; free ones can blur it, and the score hardly
    sees it where noise is strong.
    """
    totals = np.array([score.sum() for score in scores])
    family = np.array(tied)
    if family.any() and not family.all():
        free, constrained = (np.flatnonzero(of) for of in (~family, family))
        gain = (
            scores[free[totals[free].argmax()]] - scores[constrained[totals[constrained].argmax()]]
        )
        better = gain.sum() > _ERRORS * gain.std() * np.sqrt(len(gain))
        totals[family if better else ~family] = -np.inf
    weights = np.exp(totals - totals.max())
    weights /= weights.sum()
    weights[weights < _LEAST] = 0.0
    return np.asarray(weights / weights.sum())


def _tried(start: Start, data: Rows, held_out: np.ndarray, draws: Draws) -> tuple[np.ndarray, int]:
    fit, rest = data.at(~held_out), data.at(held_out)
    smoothing = smoothing_of(fit, start)
    classes = classes_of(fit, start, smoothing, draws)
    learnt, scored = LatentRows(fit, classes), LatentRows(rest, classes)
    best, at = scored.scores(classes), 0
    for done in range(1, _MOST + 1):
        classes = learnt.step(classes, smoothing)
        if done % _EVERY == 0:
            score = scored.scores(classes)
            if score.mean() > best.mean():
                best, at = score, done
            elif done - at >= _PATIENCE * _EVERY:
                break
    return best, at


def _fitted(start: Start, data: Rows, steps: int, draws: Draws) -> Classes:
    smoothing = smoothing_of(data, start)
    classes = classes_of(data, start, smoothing, draws)
    latent = LatentRows(data, classes)
    for _ in range(steps):
        classes = latent.step(classes, smoothing)
    return classes


def counted(codes: np.ndarray, size: int, groups: np.ndarray, count: int) -> np.ndarray:
    """How often each code is in each group, float64, shape (size, count).

    Args:
        codes: From 0, shape (n,).
        size: How many codes there are.
        groups: From 0, shape (n,).
        count: How many groups there are.
    """
    counts = np.bincount(codes * count + groups, minlength=size * count)
    return counts.reshape(size, count).astype(float)


def shares(counts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """The likeliest shares of the values behind released ones, by expectation maximisation.

    Args:
        counts: How often each output was released, shape (m,), or (m, groups) for each group.
        law: Pr[output | value], shape (k, m).

    Returns:
        Shares, float64, shape (k,) or (k, groups); even ones of a group without rows.
    """
    total = counts.sum(axis=0)
    observed = np.where(total > 0, counts, law.mean(axis=0).reshape(-1, *[1] * (counts.ndim - 1)))
    observed = observed / observed.sum(axis=0)
    estimate = np.full((len(law), *counts.shape[1:]), 1 / len(law))
    for _ in range(_STEPS):
        estimate = estimate * (law @ (observed / (law.T @ estimate)))
    return estimate
