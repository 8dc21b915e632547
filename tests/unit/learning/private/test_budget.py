"""Budgets add up by the log; rows of an ensemble are disjoint; nothing is drawn twice."""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.learning.private import sensitivity, trainer, tree
from opboost_ops.learning.private.backend import DPBoost
from opboost_ops.pipeline.home import Home, ResumeLog
from tests.unit.learning.private.tables import Lines, bits, mixed, parameters


@pytest.mark.parametrize(
    ("epsilon", "trees", "size", "depth"),
    [(1.0, 7, 3, 2), (0.1, 4, 50, 6), (4.0, 6, 1, 1), (0.3, 9, 3, 5)],
)
def test_the_log_of_a_run_adds_up_to_the_declared_epsilon(
    epsilon: float, trees: int, size: int, depth: int
) -> None:
    frame, label = mixed(60, 0)
    settings = parameters(epsilon, trees, trees_per_ensemble=size, depth=depth)
    events = trainer.fit(frame, label, settings).events
    assert len(events) == trees * (depth + 1)
    assert sensitivity.total_epsilon(events) == Fraction(str(epsilon))
    # Leaves have half of every tree's budget, depths the other half in equal parts.
    for t in range(trees):
        mine = events[t * (depth + 1) : (t + 1) * (depth + 1)]
        spent = [Fraction(event.epsilon) for event in mine]
        assert spent[-1] == sum(spent) / 2 == depth * spent[0]


def test_the_noise_that_is_drawn_is_that_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log could be right and the noise wrong: what the samplers were asked for is compared."""
    asked: list[tuple[Any, ...]] = []
    choose, laplace = tree.noise.choose, tree.noise.laplace
    monkeypatch.setattr(
        tree.noise, "choose", lambda s, factor: asked.append(("split", factor)) or choose(s, factor)
    )
    monkeypatch.setattr(
        tree.noise,
        "laplace",
        lambda v, change, e: asked.append(("leaf", change, e)) or laplace(v, change, e),
    )
    frame, label = mixed(60, 0)
    settings = parameters(2.0, 6, trees_per_ensemble=3, depth=4)
    events = trainer.fit(frame, label, settings).events
    wanted = []
    for event in events:
        spent = Fraction(event.epsilon)
        clip = int(2**20 * Fraction(9, 10) ** event.tree)
        wanted.append(
            ("split", spent / (4 * 2**20))
            if event.depth is not None
            else ("leaf", min(-(-(2**20) * 10 // 11), 2 * clip), spent)
        )
    assert asked == wanted


def test_rows_of_an_ensemble_are_disjoint_and_drawn_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[np.ndarray] = []
    grow = tree.grow

    def watched(codes: np.ndarray, *more: Any) -> tree.Tree:
        seen.append(codes.copy())
        return grow(codes, *more)

    monkeypatch.setattr(trainer.tree, "grow", watched)
    rows = 200
    frame = bits(np.arange(rows).reshape(-1, 1))
    frame = type(frame)(frame.names, frame.matrix, (), (), {"x0": tuple(np.arange(0.5, rows - 1))})
    # Hardly any noise and no learning: no gradient leaves the filter's reach.
    settings = parameters(1000.0, 10, trees_per_ensemble=5, learning_rate=0.001)
    trainer.fit(frame, np.zeros(rows), settings)
    for ensemble in (seen[:5], seen[5:]):
        assert sorted(np.concatenate(ensemble).ravel().tolist()) == list(range(rows))
    first, second = (np.sort(e[0].ravel()).tolist() for e in (seen[:5], seen[5:]))
    assert first != second


def test_one_more_row_moves_no_other_row_to_another_tree() -> None:
    key, rate = bytes(range(32)), Fraction(1, 10)
    whole = trainer.tree_of_row(key, 3, 5000, rate, 50)
    assert (trainer.tree_of_row(key, 3, 4999, rate, 50) == whole[:-1]).all()
    assert (trainer.tree_of_row(key, 4, 5000, rate, 50) != whole).any()
    shares = trainer.shares(rate, 50)
    assert sum(shares) == 1
    assert shares[1] / shares[0] == 1 - rate
    counts = np.bincount(whole, minlength=50)
    expected = np.array([float(share) for share in shares]) * 5000
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected) + 1).all()
    assert (trainer.tree_of_row(key, 0, 10, rate, 1) == 0).all()


def test_a_retry_goes_on_from_committed_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, label = mixed(400, 1)
    settings = parameters(2.0, 6, trees_per_ensemble=3, depth=3)
    # Power is lost while the third tree is being committed.
    memory = Lines([], room=3)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(frame, label, settings, memory)
    again = Lines(list(memory.kept))
    drawn: list[int] = []
    grow = tree.grow
    monkeypatch.setattr(trainer.tree, "grow", lambda *a: drawn.append(1) or grow(*a))
    found = trainer.fit(frame, label, settings, again)
    assert len(drawn) == 4
    assert again.kept[:3] == memory.kept
    assert sensitivity.total_epsilon(found.events) == 2
    # All is drawn: one more try draws nothing, and gives the very same trees.
    assert trainer.fit(frame, label, settings, again).trees == found.trees
    assert len(drawn) == 4
    with pytest.raises(ContractError, match="another frame"):
        trainer.fit(frame, 1 - label, settings, again)


def test_what_cannot_be_private_is_refused() -> None:
    frame, label = mixed(20, 0)
    for wrong in (
        parameters(1.0, task="multiclass"),
        parameters(1.0, learning_rate=1.0),
        parameters(1.0, learning_rate=0.0),
    ):
        with pytest.raises(ConfigError):
            trainer.fit(frame, label, wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "opendp", None)
        with pytest.raises(ConfigError):
            DPBoost().train(frame, label, parameters(1.0))
    bare = type(frame)(frame.names, frame.matrix, (), ())
    with pytest.raises(ContractError, match="p has no declared candidate splits"):
        trainer.fit(bare, label, parameters(1.0))
    frame.matrix[3, 0] = np.nan
    with pytest.raises(ContractError, match="p has missing values"):
        trainer.fit(frame, label, parameters(1.0))


def test_two_trainings_of_a_run_at_once_draw_no_more_trees_than_are_charged(tmp_path: Path) -> None:
    """A worker that lost its scheduler goes on beside the retry of its task."""
    frame, label = mixed(200, 0)
    declared = parameters(1.0, 4, task="binary", classes=2, random=True)

    def retry(*_: object) -> trainer.Trained:
        return trainer.fit(frame, label, declared, ResumeLog(Home(tmp_path)))

    with pytest.raises(ContractError, match="at the same time"):
        trainer.fit(frame, label, declared, ResumeLog(Home(tmp_path)), progress=retry)
    assert len(retry().trees) == 4
