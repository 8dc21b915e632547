"""Every booster tells of its rounds, and its model does not hang on whether anybody hears."""

from dataclasses import replace

import numpy as np
import pytest

from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters, Stop

PLAIN = Parameters("binary", 2, trees=12, learning_rate=0.3, depth=3, seed=0)


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []

    def __call__(self, what: str, done: int, of: int) -> None:
        self.told.append((what, done, of))


def rows() -> tuple[Frame, np.ndarray]:
    rng = np.random.default_rng(3)
    ranks = np.column_stack([np.resize(np.arange(1, 31), 400), rng.integers(1, 9, 400)])
    label = (ranks[:, 0] + rng.normal(scale=12, size=400) > 15).astype(float)
    matrix = np.asfortranarray(np.column_stack([ranks, rng.normal(size=400)]))
    return Frame(("b.x", "b.y", "a.z"), matrix, (), ("b.x", "b.y")), label


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("stop", [None, Stop(2)])
def test_the_model_is_the_same_to_the_byte(name: str, stop: Stop | None) -> None:
    frame, label = rows()
    parameters = replace(PLAIN, trainer=name, stop=stop, trees=60 if stop else 12)  # type: ignore[arg-type]
    heard = Heard()
    text = trainer.train(frame, label, parameters, progress=heard)
    assert text == trainer.train(frame, label, parameters)
    if stop is None:
        assert heard.told == [("trees", tree, 12) for tree in range(1, 13)]
    else:
        # It ended early, and nobody was told that it would go on to the last.
        assert heard.told == [("trees or fewer", n, 60) for n in range(1, len(heard.told) + 1)]
        assert 2 < len(heard.told) < 60
