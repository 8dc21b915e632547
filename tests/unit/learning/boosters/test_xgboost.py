"""What is XGBoost's own behind the protocol: its ``<``, its 32 bits, its threads."""

import json

import numpy as np
import pytest
import xgboost

from opboost_ops.errors import ContractError
from opboost_ops.learning import splits
from opboost_ops.learning.boosters.trainer import (
    Frame,
    Parameters,
    contributions,
    gains,
    model_of,
    predict,
    train,
)
from tests.unit.learning.boosters.rank_models import LOWER, TASKS, UPPER, fit, fixed


def test_routed_stand_ins_go_where_every_integer_goes() -> None:
    """Integers on a threshold, too: XGBoost sends 4 to the right of 4.0, LightGBM to the left."""
    fitted = fit("xgboost", fixed(), "regression", trees=8)
    model, on_values = fitted.model, fitted.on_values
    names = model_of(model).feature_names
    at = names.index("b.é0")
    thresholds = model_of(model).numeric_splits()["b.é0"]
    assert {2.0, 6.0, 3.5} <= set(thresholds)
    values = np.repeat(np.arange(LOWER, UPPER + 1), 20)
    rows = np.tile(on_values[:20], (UPPER - LOWER + 1, 1))
    rows[:, at] = values
    comparisons = model_of(model).integer_comparisons()["b.é0"]
    # A champion of the other booster adds comparisons of its own to the same request.
    for asked in (comparisons, sorted({*comparisons, *thresholds})):
        limits = np.asarray(asked)
        routed = rows.copy()
        routed[:, at] = splits.representatives(splits.cells(values, limits), limits)
        assert predict(model, routed).tobytes() == predict(model, rows).tobytes()
    sides = [predict(model, np.where(np.arange(len(names)) == at, value, on_values[:200]))
             for value in (1, 2, 3)]  # fmt: skip
    assert (sides[1] == sides[2]).all()
    assert (sides[0] != sides[1]).any()


def test_the_text_is_deterministic_and_tells_nothing_local() -> None:
    """Whatever the number of threads; rows enough that they share the work."""
    rng = np.random.RandomState(1)
    matrix = rng.randint(1, 50, size=(5000, 6)).astype(float)
    label = matrix[:, 0] * matrix[:, 1] / 100 + rng.normal(size=5000)
    names = tuple(f"b.f{i}" for i in range(6))
    frame = Frame(names, matrix, (), names)
    made = {
        train(frame, label, Parameters("regression", 0, 10, 0.3, 4, 0, n, "xgboost"))
        for n in (1, 2, 2)
    }
    assert len(made) == 1
    assert not {"nthread", "seed", "device"} & set(made.pop().split('"'))


def test_numbers_beyond_32_bits_are_as_far_as_can_be() -> None:
    """XGBoost refuses infinity, and what 32 bits make infinite."""
    values = np.array([-np.inf, -1e300, -1.0, 0.0, 1.0, 1e300, np.inf, np.nan] * 20)
    label = np.nan_to_num(np.sign(values), nan=5.0)
    frame = Frame(("a.x",), values[:, None], (), ())
    text = train(frame, label, Parameters("regression", 0, 30, 0.3, 4, 0, 1, "xgboost"))
    assert np.abs(predict(text, frame.matrix) - label).max() < 0.1
    assert "Infinity" not in text


@pytest.mark.parametrize("task", TASKS)
def test_contributions_add_up_to_the_raw_score(task: str) -> None:
    fitted = fit("xgboost", fixed(), task, trees=8)
    model, on_values = fitted.model, fitted.on_values
    parts = contributions(model, on_values)
    scores = 3 if task == "multiclass" else 1
    assert parts.shape == (len(on_values), scores, on_values.shape[1])
    stock = xgboost.Booster(model_file=bytearray(model.encode()))
    raw = stock.inplace_predict(on_values, predict_type="margin", validate_features=False)
    rest = raw.reshape(len(on_values), scores) - parts.sum(axis=2)
    # What is left is the expected score, the same for each row.
    assert rest.std(axis=0).max() < 1e-4
    trees = json.loads(model)["learner"]["gradient_booster"]["model"]["trees"]
    total = sum(sum(tree["loss_changes"]) for tree in trees)
    assert gains(model).sum() == pytest.approx(total, rel=1e-4)
    assert (gains(model) > 0).sum() >= 3


def test_a_value_that_32_bits_do_not_hold_is_an_error() -> None:
    partial = fit("xgboost", fixed(), "binary").partial
    used = splits.used_splits(partial, ["b.é1"])["b.é1"]
    wide = {rank: 2.0**24 + rank + 0.5 for rank in used}
    with pytest.raises(ContractError, match="needs more than XGBoost's 32 bits"):
        splits.materialise(partial, {"b.é1": wide}, {"b.é1": (LOWER, UPPER)})
