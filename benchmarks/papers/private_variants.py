"""DPBoost beside what the paper compares it with, on one training loop. For experiments alone.

SEQ and PARA are our reading of the paper's names: SEQ grows every tree on all rows and adds budgets
up; PARA grows every tree on half of the rows that no tree has had, so that every tree may spend the
whole budget. Both clip gradients at 1 and know neither filter nor geometric leaf clipping.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.private import noise, sensitivity, trainer, tree
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS
from opboost_ops.learning.private.trainer import checked_settings, label_bounds
from opboost_ops.learning.private.tree import Candidates, Tree

#: What `grow` can be: the trainer's own way, the same without geometric leaf clipping, the same
#: with the gain sensitivity of the paper's Lemma 1 (which is not private), and the baselines.
VARIANTS = ("dpboost", "unclipped", "paper", "seq", "para")


@dataclass(frozen=True)
class Step:
    """One tree: which rows it is given, and what it may spend on them."""

    rows: np.ndarray
    spend: Fraction
    clip: int


@dataclass(frozen=True)
class Grown:
    """A variant's trees.

    Attributes:
        trees: In order.
        given: How many rows each tree was given.
        sat_out: How many of them the filter kept out.
    """

    trees: tuple[Tree, ...]
    given: tuple[int, ...]
    sat_out: tuple[int, ...]

    def scores(
        self, codes: np.ndarray, candidates: Candidates, rate: float
    ) -> Iterator[np.ndarray]:
        """The score of rows after each tree.

        Args:
            codes: Shape (n, features).
            candidates: What splits were chosen from.
            rate: Learning rate.
        """
        score = np.zeros(len(codes))
        for one in self.trees:
            score = score + rate * one.values(codes, candidates)
            yield score


def paper_gain_range(regularisation: Fraction) -> int:
    """Twice the Delta G of the paper's Lemma 1, (3 lambda + 2) / ((lambda + 1) (lambda + 2)).

    Args:
        regularisation: lambda.
    """
    change = (3 * regularisation + 2) / ((regularisation + 1) * (regularisation + 2))
    return int(2 * change * GRADIENT_UNITS**2)


def grow(variant: str, frame: Frame, label: np.ndarray, parameters: Parameters) -> Grown:
    """Train a variant.

    Args:
        variant: One of `VARIANTS`.
        frame: Training rows, with declared thresholds and categories.
        label: Numbers or class indices, shape (n,).
        parameters: As for DPBoost.
    """
    private = checked_settings(parameters)
    candidates = Candidates.of(frame.names, frame.thresholds, frame.categories)
    codes = candidates.codes(frame.matrix)
    target = sensitivity.scale_labels(label, label_bounds(parameters))
    regularisation = sensitivity.exact_fraction(private.regularisation)
    gain_range = sensitivity.gain_range()
    if variant == "paper":
        gain_range = paper_gain_range(regularisation)
    score = np.zeros(len(target))
    grown: list[tuple[Tree, int, int]] = []
    for step in _steps(variant, len(target), parameters):
        found = sensitivity.gradients(score[step.rows], target[step.rows])
        if variant in ("seq", "para"):
            found = np.clip(found, -GRADIENT_UNITS, GRADIENT_UNITS)
        kept = sensitivity.take_part(found)
        one = tree.grow(
            codes[step.rows[kept]],
            found[kept],
            candidates,
            step.spend,
            parameters.depth,
            regularisation,
            gain_range,
            step.clip,
        )
        score += parameters.learning_rate * one.values(codes, candidates)
        grown.append((one, len(step.rows), int((~kept).sum())))
    trees, given, sat_out = zip(*grown, strict=True)
    return Grown(trees, given, sat_out)


def _steps(variant: str, rows: int, parameters: Parameters) -> Iterator[Step]:
    private, trees = checked_settings(parameters), parameters.trees
    key, rate = noise.fresh_key(), sensitivity.exact_fraction(parameters.learning_rate)
    if variant == "seq":
        for _ in range(trees):
            yield Step(
                np.arange(rows), sensitivity.exact_fraction(private.epsilon) / trees, LEAF_UNITS
            )
    elif variant == "para":
        # Halves of what is left: each row's tree is geometric, and the last trees get nothing.
        place = _trailing_zeros(noise.random_words(key, 0, rows))
        for number in range(trees):
            mine = np.flatnonzero(place == number)
            yield Step(mine, sensitivity.exact_fraction(private.epsilon), LEAF_UNITS)
    else:
        spend = sensitivity.tree_budget(private.epsilon, trees, private.trees_per_ensemble)
        for ensemble, size in enumerate(sensitivity.ensembles(trees, private.trees_per_ensemble)):
            place = trainer.tree_of_row(key, ensemble, rows, rate, size)
            for number in range(size):
                clip = LEAF_UNITS if variant == "unclipped" else sensitivity.leaf_clip(rate, number)
                yield Step(np.flatnonzero(place == number), spend, clip)


def _trailing_zeros(words: np.ndarray) -> np.ndarray:
    lowest = words & (~words + np.uint64(1))
    return np.where(words == 0, 64, np.log2(np.maximum(lowest, 1).astype(np.float64))).astype(int)
