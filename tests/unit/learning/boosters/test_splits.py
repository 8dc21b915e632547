"""Split replacement: to the bit, with every booster, whatever the tables look like."""

import re
from pathlib import Path

import lightgbm
import numpy as np
import pytest
import xgboost

from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.learning import splits
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from opboost_ops.learning.boosters.trainer import Frame, Parameters, model_of, predict, train
from opboost_ops.mechanisms import BucketResponse
from tests.unit.learning.boosters.rank_models import (
    LOWER,
    TASKS,
    TRAINERS,
    UPPER,
    dense,
    fit,
    fixed,
)


def parameters(trainer: str, trees: int, depth: int) -> Parameters:
    return Parameters("regression", 0, trees, 0.2, depth, 0, 1, trainer)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", TASKS)
def test_the_file_loads_in_stock_lightgbm(task: str, tmp_path: Path) -> None:
    case = fixed([np.arange(400) % 40 + 1, (np.arange(400) * 7) % 9 + 1])
    fitted = fit("lightgbm", case, task)
    path = tmp_path / "model.txt"
    path.write_text(fitted.model, encoding="utf-8")
    booster = lightgbm.Booster(model_file=str(path))
    assert booster.feature_name() == ["a.x", "a.y", "a.kind", "b.é0", "b.é1"]
    assert booster.num_trees() == 6 * (3 if task == "multiclass" else 1)
    found = booster.predict(fitted.on_values)
    assert found.tobytes() == predict(fitted.model, fitted.on_values).tobytes()
    again = lightgbm.Booster(model_str=booster.model_to_string())
    assert again.predict(fitted.on_values).tobytes() == found.tobytes()
    assert not re.search(r"num_threads|\[data:|input_model|output_model|tmp", fitted.model)


@pytest.mark.parametrize("task", TASKS)
def test_the_file_loads_in_stock_xgboost(task: str, tmp_path: Path) -> None:
    fitted = fit("xgboost", fixed(), task, trees=8)
    path = tmp_path / "model.json"
    path.write_text(fitted.model, encoding="utf-8")
    booster = xgboost.Booster(model_file=path)
    assert booster.num_boosted_rounds() == 8
    assert booster.feature_names[-2:] == ["b.é0", "b.é1"]
    kinds = ["c" if n == "a.kind" else "float" for n in booster.feature_names]
    data = xgboost.DMatrix(fitted.on_values, feature_names=booster.feature_names,
                           feature_types=kinds, enable_categorical=True)  # fmt: skip
    found = predict(fitted.model, fitted.on_values)
    assert booster.predict(data).astype(float).tobytes() == found.tobytes()
    again = bytes(booster.save_raw("json")).decode()
    assert predict(again, fitted.on_values).tobytes() == found.tobytes()
    if task == "regression":
        assert np.mean((found - fitted.label) ** 2) < 0.5 * np.var(fitted.label)
    else:
        chosen = found > 0.5 if task == "binary" else found.argmax(axis=1)
        assert (chosen == fitted.label).mean() > 0.8


@pytest.mark.parametrize("trainer", TRAINERS)
def test_training_on_ranks_is_training_on_values(trainer: str) -> None:
    """Many ranks: stock binning, or a sketch that merged any two of them, would be seen."""
    rng = np.random.RandomState(3)
    values = rng.choice(np.arange(1, 5000), size=20_000)
    ranks, table = dense(values)
    assert len(table) > 4000
    label = np.sin(values / 400) + 0.1 * rng.normal(size=len(values))
    predictions = set()
    for column in (ranks, table[ranks - 1]):
        frame = Frame(("b.x",), column.astype(float)[:, None], (), ("b.x",))
        text = train(frame, label, parameters(trainer, trees=20, depth=4))
        predictions.add(predict(text, frame.matrix).tobytes())
    assert len(predictions) == 1
    # A step between two ranks is found exactly there, wherever it is.
    for step in (37, 1234, 2222, len(table) - 37):
        frame = Frame(("b.x",), ranks.astype(float)[:, None], (), ("b.x",))
        text = train(frame, (ranks > step).astype(float), parameters(trainer, trees=1, depth=1))
        assert splits.used_splits(text, ["b.x"]) == {"b.x": [step]}


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("task", TASKS)
def test_trees_without_any_split(trainer: str, task: str) -> None:
    classes = 3 if task == "multiclass" else 2
    frame = Frame(("b.x",), np.ones((30, 1)), (), ("b.x",))
    declared = Parameters(task, classes, 3, 0.1, 3, 0, 1, trainer)  # type: ignore[arg-type]
    text = train(frame, np.arange(30.0) % classes, declared)
    assert splits.used_splits(text, ["b.x"]) == {}
    model = splits.materialise(text, {}, {"b.x": (LOWER, 12_345_678)})
    if trainer == "lightgbm":
        assert f"feature_infos=[{LOWER}:12345678]\n" in model
    on_values = np.full((30, 1), 7.0)
    assert predict(model, on_values).tobytes() == predict(text, frame.matrix).tobytes()


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(("rows", "features"), [(0, 1), (30, 0), (0, 0)])
def test_nothing_to_learn_from(trainer: str, rows: int, features: int) -> None:
    frame = Frame(("b.x",)[:features], np.ones((rows, features)), (), ())
    with pytest.raises(ContractError, match="no row or no feature"):
        train(frame, np.ones(rows), parameters(trainer, trees=3, depth=3))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_categorical_thresholds_are_left_alone(trainer: str) -> None:
    """A category's bit set index looks like a rank; replacing it would be silent nonsense."""
    fitted = fit(trainer, fixed(rows=3000), "binary", trees=30)
    before, after = model_of(fitted.partial), model_of(fitted.model)
    assert before.split_counts() == after.split_counts()
    assert after.split_counts()["a.kind"] > 0
    assert "a.kind" not in after.numeric_splits()
    assert before.numeric_splits()["a.x"] == after.numeric_splits()["a.x"]


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("split", [2, 5])
@pytest.mark.parametrize("bounds", [(-70, -10), (10, 70)])
def test_a_value_that_no_training_row_lacked_is_missing_and_not_zero(
    trainer: str, split: int, bounds: tuple[int, int]
) -> None:
    """LightGBM reads NaN as 0 there, which lies on one side of a whole domain."""
    ranks = np.arange(700) % 7 + 1
    table = np.linspace(*bounds, 7)
    frame = Frame(("b.x",), ranks.astype(float)[:, None], (), ("b.x",))
    text = train(frame, (ranks > split).astype(float), parameters(trainer, trees=4, depth=1))
    values = dict(zip([split], splits.split_values([split], table), strict=True))
    model = splits.materialise(text, {"b.x": values}, {"b.x": bounds}, {"b.x": 7})
    on_values = table[ranks - 1][:, None]
    assert predict(model, on_values).tobytes() == predict(text, frame.matrix).tobytes()
    found = predict(model, np.array([[np.nan], [table[0]], [table[-1]], [0.0]]))
    assert found[3] == found[2 if bounds[0] < 0 else 1]
    if trainer == "lightgbm":
        # Where most training rows went.
        assert found[0] == found[1 if split == 5 else 2]
    else:
        # XGBoost's own choice, which no domain moves.
        assert found[0] == predict(text, np.array([[np.nan]]))[0]


def test_an_own_value_that_no_training_row_lacked_is_not_zero() -> None:
    values = np.arange(700) % 7 + 10.0
    frame = Frame(("a.x",), values[:, None], (), ())
    for split, likeliest in ((12, 16.0), (15, 10.0)):
        text = train(frame, (values > split).astype(float), parameters("lightgbm", 4, 1))
        gap, usual, zero = predict(text, np.array([[np.nan], [likeliest], [0.0]]))
        assert gap == usual
        assert bool(gap == zero) is (split == 15)
        stock = lightgbm.Booster(model_str=text)
        assert stock.predict(np.array([[np.nan]]))[0] == gap


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_missing_split_value_is_an_error(trainer: str) -> None:
    partial = fit(trainer, fixed([np.arange(400) % 40 + 1]), "binary").partial
    used = splits.used_splits(partial, ["b.é0"])["b.é0"]
    for known in ([], used[1:]):
        with pytest.raises(ContractError, match=r"b\.é0 has no value"):
            splits.materialise(
                partial, {"b.é0": {rank: float(rank) for rank in known}}, {"b.é0": (LOWER, UPPER)}
            )


def test_split_values() -> None:
    table = np.array([2, 3, 7, 10])
    assert splits.split_values([1, 2, 3], table) == [2.5, 5.0, 8.5]
    for rank in (0, -1, 4, 5):
        with pytest.raises(ContractError, match="outside the ranks"):
            splits.split_values([rank], table)


def test_a_split_between_buckets_lies_at_their_ends() -> None:
    """Not halfway between what they are released as: 4 lies in the second bucket, below 7.5."""
    channel = BucketResponse(epsilon=1, edges=(2, 3, 21)).channel(Domain(1, 30))
    assert channel.outputs.tolist() == [1, 2, 11, 25]
    table = channel.span(channel.outputs)
    assert splits.split_values([1, 2, 3], table) == [1.5, 2.5, 20.5]
    # The bucket from 3 to 20 was never released.
    assert splits.split_values([2], table[[0, 1, 3]]) == [11.5]


@pytest.mark.parametrize("text", ["", "no model", "tree\nversion=v4\n"])
def test_a_text_that_is_no_lightgbm_model(text: str) -> None:
    with pytest.raises(ContractError, match="not a LightGBM text model"):
        TextModel.parse(text)


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"trees": []}', '{"learner": {"feature_names": [], "trees": 1}}']
)
def test_a_text_that_is_no_xgboost_model(text: str) -> None:
    with pytest.raises(ContractError, match="not an XGBoost JSON model"):
        model_of(text)


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("high", [0.0, 1.0])
def test_a_split_that_parts_missing_values_from_all_others(trainer: str, high: float) -> None:
    """It asks for nothing. LightGBM writes an infinite threshold where the column has zeros."""
    rng = np.random.default_rng(0)
    own, ranks = (rng.integers(low, low + 8, 2000).astype(np.float64) for low in (0, 1))
    own[rng.random(2000) < 0.2] = np.nan
    ranks[rng.random(2000) < 0.2] = np.nan
    gone = np.isnan(own) * 2.0 + np.isnan(ranks)
    frame = Frame(("a.own", "b.ranks"), np.column_stack([own, ranks]), (), ("b.ranks",))
    highest = {"b.ranks": 8}
    for label in (gone * (1 - 2 * high), gone + np.nan_to_num(ranks > 3) * high):
        text = train(frame, label, parameters(trainer, 5, 2))
        asked = splits.used_splits(text, ["b.ranks"], highest).get("b.ranks", [])
        assert all(1 <= rank < 8 for rank in asked)
        values = {"b.ranks": {rank: rank + 0.5 for rank in asked}}
        made = splits.materialise(text, values, {"b.ranks": (1, 8)}, highest)
        inside = splits.domain_thresholds(made, {"a.own": (1, 8), "b.ranks": (1, 8)})
        assert all(1 <= t < 8 for found in inside.values() for t in found)
        assert len(inside.get("b.ranks", [])) == len(asked)
        assert predict(made, frame.matrix).tobytes() == predict(text, frame.matrix).tobytes()
