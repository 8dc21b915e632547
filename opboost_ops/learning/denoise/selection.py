"""Which starts are kept, by what they say of held-out released cells: no clear row is needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.learning.denoise.classes import Classes
from opboost_ops.learning.denoise.draws import Draws
from opboost_ops.learning.denoise.latent_rows import LatentRows
from opboost_ops.learning.denoise.rows import Rows
from opboost_ops.learning.denoise.starts import Start, classes_of, smoothing_of

#: Share of the rows that scores, how often it does, for how many scores without a better one the
#: estimate goes on, and at most how many steps it takes.
_HELD, _EVERY, _PATIENCE, _MOST = 6, 10, 3, 200

#: By how many standard errors free classes must be better than tied ones.
_ERRORS = 2.0

#: Models of less weight are dropped.
_LEAST = 0.05


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
