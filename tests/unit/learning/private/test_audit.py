"""A black-box audit: neighbouring tables, thousands of tiny models, and bugs that it must catch.

An attack is an event of the model alone. The more often it happens on one table than on its
neighbour, the greater epsilon must be; the audit takes the confidence limits that make it least.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from benchmarks.papers.private_variants import paper_gain_range
from opboost_ops.learning.boosters.backend import Parameters
from opboost_ops.learning.private import noise, trainer
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.trainer import Trained
from tests.unit.learning.private.tables import bits, parameters

#: Each limit alone is wrong this often; what a correct trainer loses stays well under its epsilon.
ALPHA = 1e-3


@dataclass(frozen=True)
class Attack:
    """Two neighbouring tables, a training, and an event by which to tell them apart.

    Attributes:
        rows: Of the one table; the other has ``new`` besides.
        labels: Theirs.
        new: The added row.
        label: Its label.
        settings: Of the training.
        event: More likely without the added row, or with it.
        declared: What the attacked part of the model may lose.
        models: How many are trained on each table.
    """

    rows: list[list[int]]
    labels: list[float]
    new: list[int]
    label: float
    settings: Parameters
    event: Callable[[Trained], bool]
    declared: float
    models: int

    def bound(self) -> float:
        """The lower confidence bound on epsilon."""
        width = len(self.new)
        tables = (
            (bits(self.rows, width), np.array(self.labels)),
            (bits([*self.rows, self.new], width), np.array([*self.labels, self.label])),
        )
        hits = [
            sum(self.event(trainer.fit(*table, self.settings)) for _ in range(self.models))
            for table in tables
        ]
        rare, often = sorted(hits)
        low = beta.ppf(ALPHA, often, self.models - often + 1)
        high = beta.ppf(1 - ALPHA, rare + 1, self.models - rare)
        return math.log(low / high)


def leaf(found: Trained, tree: int = 0) -> float:
    return found.trees[tree].leaves[0] / LEAF_UNITS


#: One row alone in its leaf moves it by g_l* / (1 + lambda), as far as a row can.
ALONE = Attack(
    rows=[],
    labels=[],
    new=[0],
    label=1.0,
    settings=parameters(2.0),
    event=lambda found: leaf(found) > 0.85,
    declared=2.0,
    models=800,
)

#: Six ensembles of a tree each: what the leaves say of the row, as a likelihood ratio.
AGAIN = Attack(
    rows=[],
    labels=[],
    new=[0],
    label=0.999,
    settings=parameters(1.5, 6, trees_per_ensemble=1, learning_rate=0.0001),
    event=lambda found: sum(min(max(leaf(found, t), 0.0), 0.9) - 0.45 for t in range(6)) > 1.2,
    declared=1.5,
    models=1000,
)

#: The added row joins a pile of its own sign by x1, which may raise the gain by g_l*^2, and one of
#: the other sign by x0, which lowers it by nearly 3 g_l*^2. One row spoils x1, so that it is the
#: rarer choice. What is attacked is the choice, which by the log may lose half of epsilon.
PILES = Attack(
    rows=[[0, 1]] * 60 + [[1, 0]] * 60 + [[1, 1]],
    labels=[-1.0] * 60 + [1.0] * 61,
    new=[0, 0],
    label=1.0,
    settings=parameters(3.0),
    event=lambda found: found.trees[0].splits[0] == 1,
    declared=1.5,
    models=1800,
)

#: The same with gradients of 2: by what the trainer declares these rows take no part.
LARGE = Attack(
    rows=PILES.rows,
    labels=[2 * label for label in PILES.labels],
    new=PILES.new,
    label=2.0,
    settings=parameters(1.0),
    event=PILES.event,
    declared=0.5,
    models=500,
)


@pytest.fixture(autouse=True)
def noise_in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real sampler, asked for many draws at once."""
    real = noise.laplace
    drawn: dict[Any, list[int]] = {}

    def laplace(values: list[int], change: int, epsilon: Fraction) -> list[int]:
        left = drawn.setdefault((change, epsilon), [])
        if len(left) < len(values):
            left += real([0] * 4000, change, epsilon)
        return [value + left.pop() for value in values]

    monkeypatch.setattr(noise, "laplace", laplace)


@pytest.mark.parametrize("attack", [ALONE, PILES], ids=["alone", "piles"])
def test_the_trainer_keeps_its_epsilon(attack: Attack) -> None:
    """An attack that shows nothing at all would be none."""
    assert 0.1 * attack.declared < attack.bound() < attack.declared


def test_noise_on_a_copy_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = noise.laplace

    def laplace(values: list[int], change: int, epsilon: Fraction) -> list[int]:
        drawn(list(values), change, epsilon)
        return values

    monkeypatch.setattr(noise, "laplace", laplace)
    assert ALONE.bound() > ALONE.declared


@pytest.mark.slow
def test_a_budget_for_each_tree_and_not_for_each_ensemble_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert replace(AGAIN, models=150).bound() < AGAIN.declared
    monkeypatch.setattr(trainer.sensitivity, "tree_budget", lambda epsilon, *_: Fraction(epsilon))
    assert AGAIN.bound() > AGAIN.declared


@pytest.mark.slow
def test_the_papers_delta_g_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = paper_gain_range(Fraction(1, 10))
    monkeypatch.setattr(trainer.sensitivity, "gain_range", lambda: wrong)
    assert PILES.bound() > PILES.declared


def test_sensitivity_without_the_filter_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels beyond their bounds, let through: with the filter these rows do nothing at all."""
    monkeypatch.setattr(trainer.sensitivity, "scale_labels", lambda label, _: np.asarray(label))
    assert LARGE.bound() < LARGE.declared
    monkeypatch.setattr(
        trainer.sensitivity, "take_part", lambda found: np.ones(len(found), dtype=bool)
    )
    assert LARGE.bound() > LARGE.declared
