"""Thresholds that split integers alike are asked for once, and never more than |D| - 1 of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.learning import splits
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from opboost_ops.learning.boosters.trainer import Frame, Parameters, model_of, predict, train

LOWER, UPPER = 1, 6
ROWS = 400


def model(thresholds: list[float]) -> TextModel:
    """A real model of one feature, with its thresholds replaced by others in the same order."""
    rng = np.random.default_rng(0)
    values = rng.integers(LOWER, UPPER + 1, ROWS).astype(float)
    frame = Frame(("b.x",), values.reshape(-1, 1), (), ("b.x",))
    label = values * (values > 2) + rng.normal(size=ROWS)
    made = model_of(train(frame, label, Parameters("regression", 0, 12, 0.1, 3, 0)))
    old = made.numeric_splits()["b.x"]
    new = sorted(thresholds)[: len(old)]
    new += [new[-1]] * (len(old) - len(new))
    replaced = dict(zip(old, new, strict=True))
    return made.replace_thresholds({"b.x": replaced}, {"b.x": (LOWER, UPPER)})


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(LOWER, UPPER - 0.001), min_size=1, max_size=12))
def test_they_decide_every_split_and_are_at_most_one_less_than_the_domain(
    thresholds: list[float],
) -> None:
    made = model(thresholds)
    asked = np.array(made.integer_comparisons()["b.x"])
    assert len(asked) <= UPPER - LOWER
    assert ((asked - 0.5) % 1 == 0).all()
    assert (np.diff(asked) > 0).all()
    values = np.arange(LOWER, UPPER + 1)
    answered = splits.representatives(splits.cells(values, asked), asked)
    both = (v.astype(float).reshape(-1, 1) for v in (values, answered))
    clear, routed = (predict(made.text(), matrix) for matrix in both)
    assert np.array_equal(clear, routed)


def test_four_and_four_and_a_half_count_once() -> None:
    assert model([4.0, 4.5]).integer_comparisons() == {"b.x": [4.5]}
