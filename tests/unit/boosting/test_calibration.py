"""Attenuation is told by the channel and undone in the trees, whichever booster made them."""

import numpy as np
import pytest

from opboost_ops.boosting import calibration, trainer
from opboost_ops.boosting.frame import Frame, Parameters, Trainer
from opboost_ops.boosting.steps import scaled_leaves
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.mechanisms.channel import Channel

DOMAIN = Domain(1, 10)
ROWS = 6000


def drawn(channel: Channel, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    law = channel.probabilities()
    return np.array([rng.choice(channel.outputs, p=law[v - 1]) for v in values])


def parameters(name: Trainer = "lightgbm", task: str = "regression") -> Parameters:
    return Parameters(task=task, classes=0, trees=40, learning_rate=0.2, depth=3, seed=0,
                      trainer=name)  # type: ignore[arg-type]  # fmt: skip


def made_up(epsilon: float) -> tuple[Frame, np.ndarray, np.ndarray, np.ndarray, Channel]:
    """Two columns of others with one mechanism, one own, and a label that is linear in them."""
    rng = np.random.default_rng(3)
    clear = rng.integers(1, 11, (ROWS, 2))
    own = rng.normal(size=ROWS)
    label = clear @ [1.0, -0.5] + own + 0.2 * rng.normal(size=ROWS)
    channel = GlobalMap(epsilon=epsilon).channel(DOMAIN)
    released = np.column_stack([drawn(channel, clear[:, j], rng) for j in range(2)])
    names = ("a.own", "b.x", "b.y")
    matrix = np.column_stack([own, released]).astype(float)
    test = np.column_stack([own, clear]).astype(float)
    return Frame(names, np.asfortranarray(matrix), (), names[1:]), label, test, released, channel


def test_a_tree_by_hand() -> None:
    # The root's mean is 3, that of node 1 is 1; leaf ~2 hangs at the root.
    found = scaled_leaves(
        {0: (1, ~2), 1: (~0, ~1)}, {0: 2.0, 1: 1.0}, {~0: (0.0, 1), ~1: (2.0, 1), ~2: (5.0, 2)}
    )
    assert found == {~0: -2.0, ~1: 0.0, ~2: 7.0}


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_on_clear_rows_the_calibrated_model_is_nearer(name: Trainer) -> None:
    frame, label, test, released, channel = made_up(0.5)
    columns = {"b.x": released[:, 0], "b.y": released[:, 1]}
    channels = dict.fromkeys(columns, channel)
    text = trainer.train(frame, label, parameters(name))
    by = calibration.attenuation(frame, label, parameters(name), columns, channels)
    # Two columns drawn alike: the least squares line is the ratio of the steps of E[Y | x].
    flattened = trainer.predict(text, test)
    noiseless = test[:, 1:] @ [1.0, -0.5]
    part = flattened - test[:, 0]
    best = np.cov(part, noiseless)[0, 1] / part.var()
    assert 0.7 * best < by < 1.05 * best
    better = trainer.predict(calibration.calibrated(text, ["b.x", "b.y"], by), test)
    assert np.mean((better - label) ** 2) < 0.5 * np.mean((flattened - label) ** 2)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_factors_of_one_and_nought(name: Trainer) -> None:
    frame, label, test, _, _ = made_up(1.0)
    text = trainer.train(frame, label, parameters(name))
    same = calibration.calibrated(text, frame.ranked, 1.0)
    np.testing.assert_allclose(trainer.predict(same, test), trainer.predict(text, test), rtol=1e-5)
    without = calibration.calibrated(text, frame.names, 0.0)
    np.testing.assert_allclose(trainer.predict(without, test), label.mean(), atol=0.05)


def test_without_noise_there_is_hardly_anything_to_undo() -> None:
    frame, label, _, released, channel = made_up(30.0)
    columns = {"b.x": released[:, 0], "b.y": released[:, 1]}
    channels = dict.fromkeys(columns, channel)
    assert calibration.attenuation(frame, label, parameters(), columns, channels) < 1.01


def test_labels_that_nothing_explains_are_left_alone() -> None:
    frame, label, _, released, channel = made_up(0.05)
    shuffled = np.random.default_rng(0).permutation(label)
    columns = {"b.x": released[:, 0], "b.y": released[:, 1]}
    channels = dict.fromkeys(columns, channel)
    assert calibration.attenuation(frame, shuffled, parameters(), columns, channels) == 1.0


def test_many_classes_are_refused() -> None:
    frame, label, *_ = made_up(1.0)
    with pytest.raises(ContractError, match="binary labels and numbers"):
        calibration.attenuation(frame, label, parameters(task="multiclass"), {}, {})
