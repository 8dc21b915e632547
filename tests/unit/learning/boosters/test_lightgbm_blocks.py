"""Training on a table in blocks gives the model that a frame in memory gives."""

import dataclasses

import numpy as np
import pytest

from opboost_ops.learning.boosters import lightgbm_backend, trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.boosters.lightgbm_backend import LocalEngine
from opboost_ops.learning.boosters.trainer import model_of, predict
from tests.unit.learning.boosters.rank_models import rows_of

ROWS = 3000


def frame_of(weighted: bool = False) -> tuple[Frame, np.ndarray]:
    """Rows in the order of one column's ranks: the worst for a sample of the first ones."""
    rng = np.random.default_rng(0)
    ranks, own = np.sort(rng.integers(1, 41, ROWS)), rng.normal(size=ROWS)
    kinds = rng.integers(0, 4, ROWS)
    other = np.concatenate([np.arange(1, 200), rng.integers(1, 200, ROWS - 199)])
    matrix = np.column_stack([ranks, own, other, kinds]).astype(np.float64)
    matrix[::17, 1] = np.nan
    label = (ranks / 40 + np.nan_to_num(matrix[:, 1]) + rng.normal(size=ROWS) > 0.8).astype(float)
    names = ("bank.income", "credit.age", "shop.orders", "credit.job")
    weight = rng.random(ROWS) if weighted else None
    ranked = ("bank.income", "shop.orders")
    return Frame(names, np.asfortranarray(matrix), ("credit.job",), ranked, weight=weight), label


def by_blocks(frame: Frame, label: np.ndarray, parameters: Parameters) -> str:
    return LocalEngine().train(rows_of(frame, label), parameters)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_model_to_the_byte(weighted: bool) -> None:
    frame, label = frame_of(weighted)
    parameters = Parameters("binary", 2, trees=20, learning_rate=0.1, depth=4, seed=0)
    assert by_blocks(frame, label, parameters) == trainer.train(frame, label, parameters)
    several = dataclasses.replace(parameters, task="multiclass", classes=3)
    three = frame.matrix[:, 3].clip(max=2)
    assert by_blocks(frame, three, several) == trainer.train(frame, three, several)


def test_ranks_that_some_people_lack_are_missing_values() -> None:
    frame, label = frame_of()
    frame.matrix[::7, 2] = np.nan
    # One row of the first block alone has the highest rank.
    frame.matrix[5, 2] = 200
    parameters = Parameters("binary", 2, trees=20, learning_rate=0.1, depth=4, seed=0)
    assert by_blocks(frame, label, parameters) == trainer.train(frame, label, parameters)


def test_every_rank_has_a_bin_whatever_the_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, label = frame_of()
    frame = dataclasses.replace(
        frame,
        names=("bank.income", "shop.orders"),
        matrix=np.asfortranarray(frame.matrix[:, [0, 2]]),
        categorical=(),
    )
    parameters = Parameters("binary", 2, trees=30, learning_rate=0.1, depth=5, seed=0)
    monkeypatch.setattr(lightgbm_backend, "SAMPLE_ROWS", 30)
    text, here = by_blocks(frame, label, parameters), trainer.train(frame, label, parameters)
    # Ranks alone: their bins do not hang on the sample.
    assert model_of(text).numeric_splits() == model_of(here).numeric_splits()
    assert np.array_equal(predict(text, frame.matrix), predict(here, frame.matrix))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([1, 255], np.uint8),
        ([1, 256], np.uint16),
        ([1, 70_000], np.float32),
        ([1, 2**24 + 1], np.float64),
        ([-1, 3], np.float32),
        ([0.5, np.nan], np.float32),
        ([0.1, 1], np.float64),
        ([1e300, np.inf], np.float64),
    ],
)
def test_narrow_columns_have_the_same_numbers(column: list[float], kind: type) -> None:
    numbers = np.array(column, dtype=np.float64)
    narrow = lightgbm_backend.narrow(numbers)
    assert narrow.dtype == kind
    assert np.array_equal(narrow.astype(np.float64), numbers, equal_nan=True)
