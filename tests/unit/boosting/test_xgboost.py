"""XGBoost behind the protocol: to the bit, on every task, with its own ``<``."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings

from opboost_ops.boosting import routes, splits
from opboost_ops.boosting.trainer import (
    Frame,
    Parameters,
    backend_of,
    contributions,
    gains,
    model_of,
    predict,
    train,
)
from opboost_ops.boosting.xgboost_json import JsonModel
from opboost_ops.errors import ConfigError, ContractError
from tests.unit.boosting.test_splits import LOWER, TASKS, UPPER, dense, federations


def parameters(task: str, classes: int, trees: int = 8, depth: int = 4) -> Parameters:
    return Parameters(task, classes, trees, 0.3, depth, 0, 1, "xgboost")  # type: ignore[arg-type]


def trained(case: dict[str, Any], task: str) -> tuple[str, str, np.ndarray, np.ndarray, np.ndarray]:
    """Partial and materialised model, rows on ranks and on values, and labels."""
    rows, rng = case["rows"], case["rng"]
    ranks, tables = zip(*map(dense, case["others"]), strict=True)
    own = {"a.x": case["own"][:, 0], "a.y": case["own"][:, 1], "a.kind": case["codes"]}
    others = tuple(f"b.é{i}" for i in range(len(ranks)))
    names = (*own, *others)
    on_ranks = np.column_stack([*own.values(), *ranks]).astype(float)
    on_values = np.column_stack([*own.values(), *case["others"]]).astype(float)
    noisy = sum(np.asarray(v, float) for v in case["others"]) / UPPER
    noisy = noisy + np.nan_to_num(case["own"][:, 0]) + 0.3 * rng.normal(size=rows)
    label, classes = noisy, 0
    if task != "regression":
        classes = 2 if task == "binary" else 3
        label = np.searchsorted(np.quantile(noisy, np.arange(1, classes) / classes), noisy)
        label[:classes] = range(classes)
    frame = Frame(
        names, np.asfortranarray(on_ranks), tuple(n for n in own if n == "a.kind"), others
    )
    label = label.astype(float)
    partial = train(frame, label, parameters(task, classes))
    values = {
        name: dict(zip(asked, splits.split_values(asked, table), strict=True))
        for name, table in zip(others, tables, strict=True)
        if (asked := splits.used_splits(partial, [name]).get(name))
    }
    model = splits.materialise(partial, values, dict.fromkeys(others, (LOWER, UPPER)))
    return partial, model, on_ranks, on_values, label


def fixed(rows: int = 400, seed: int = 0) -> dict[str, Any]:
    rng = np.random.RandomState(seed)
    own, codes = rng.normal(size=(rows, 2)), rng.randint(0, 6, size=rows).astype(float)
    own[::5, 1], codes[::7] = np.nan, np.nan
    others = [rng.choice([1, 3, 4, 8, 9, 30], size=rows), rng.randint(1, 41, size=rows)]
    return {"own": own, "codes": codes, "others": others, "rng": rng, "rows": rows}


@pytest.mark.parametrize("task", TASKS)
@given(case=federations())
@settings(max_examples=15, deadline=None)
def test_predictions_are_the_same_to_the_bit(task: str, case: dict) -> None:
    partial, model, on_ranks, on_values, _ = trained(case, task)
    assert predict(partial, on_ranks).tobytes() == predict(model, on_values).tobytes()
    margins = [xgboost.Booster(model_file=bytearray(text.encode())).inplace_predict(
        rows, predict_type="margin", validate_features=False)
        for text, rows in ((partial, on_ranks), (model, on_values))]  # fmt: skip
    assert margins[0].tobytes() == margins[1].tobytes()
    used = model_of(model).numeric_splits()
    for i, values in enumerate(case["others"]):
        present = np.unique(values).tolist()
        midpoints = {(a + b) / 2 for a, b in itertools.pairwise(present)}
        assert set(used.get(f"b.é{i}", [])) <= midpoints


@pytest.mark.parametrize("task", TASKS)
def test_the_file_loads_in_stock_xgboost(task: str, tmp_path: Path) -> None:
    _, model, _, on_values, label = trained(fixed(), task)
    path = tmp_path / "model.json"
    path.write_text(model, encoding="utf-8")
    booster = xgboost.Booster(model_file=path)
    assert booster.num_boosted_rounds() == 8
    assert booster.feature_names[-2:] == ["b.é0", "b.é1"]
    kinds = ["c" if n == "a.kind" else "float" for n in booster.feature_names]
    data = xgboost.DMatrix(on_values, feature_names=booster.feature_names,
                           feature_types=kinds, enable_categorical=True)  # fmt: skip
    found = predict(model, on_values)
    assert booster.predict(data).astype(float).tobytes() == found.tobytes()
    again = bytes(booster.save_raw("json")).decode()
    assert predict(again, on_values).tobytes() == found.tobytes()
    if task == "regression":
        assert np.mean((found - label) ** 2) < 0.5 * np.var(label)
    else:
        chosen = found > 0.5 if task == "binary" else found.argmax(axis=1)
        assert (chosen == label).mean() > 0.8


def test_training_on_ranks_is_training_on_values() -> None:
    """Many ranks, so that a sketch that merged any two of them would be seen."""
    rng = np.random.RandomState(3)
    values = rng.choice(np.arange(-2500, 2500), size=20_000)
    ranks, table = dense(values)
    assert len(table) > 4000
    label = np.sin(values / 400) + 0.1 * rng.normal(size=len(values))
    found = []
    for column in (ranks, table[ranks - 1]):
        # As many bins as for ranks; the frame reads their number off the column.
        matrix = np.column_stack([column, ranks]).astype(float)
        frame = Frame(("b.x", "b.none"), matrix * (1, 0) + (0, len(table)), (), ("b.x", "b.none"))
        text = train(frame, label, parameters("regression", 0, trees=20))
        found.append(predict(text, frame.matrix))
    assert found[0].tobytes() == found[1].tobytes()
    for step in (1, 37, 2222, len(table) - 1):
        frame = Frame(("b.x",), ranks.astype(float)[:, None], (), ("b.x",))
        one = parameters("regression", 0, trees=1, depth=1)
        text = train(frame, (ranks > step).astype(float), one)
        assert splits.used_splits(text, ["b.x"]) == {"b.x": [step]}


def test_routed_stand_ins_go_where_every_integer_goes() -> None:
    """Integers on a threshold, too: XGBoost sends 4 to the right of 4.0, LightGBM to the left."""
    case = fixed()
    _, model, _, on_values, _ = trained(case, "regression")
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
        routed[:, at] = routes.stand_ins(routes.cells(values, limits), limits)
        assert predict(model, routed).tobytes() == predict(model, rows).tobytes()
    sides = [predict(model, np.where(np.arange(len(names)) == at, value, on_values[:200]))
             for value in (1, 2, 3)]  # fmt: skip
    assert (sides[1] == sides[2]).all()
    assert (sides[0] != sides[1]).any()


def test_categories_are_left_alone() -> None:
    partial, model, *_ = trained(fixed(), "binary")
    before, after = (JsonModel.parse(text) for text in (partial, model))
    assert before.split_counts() == after.split_counts()
    assert after.split_counts()["a.kind"] > 0
    assert "a.kind" not in after.numeric_splits()
    assert before.numeric_splits()["a.x"] == after.numeric_splits()["a.x"]


@pytest.mark.parametrize("task", TASKS)
def test_trees_without_any_split(task: str) -> None:
    label = np.arange(30.0) % (3 if task == "multiclass" else 2)
    frame = Frame(("b.x",), np.ones((30, 1)), (), ("b.x",))
    text = train(frame, label, parameters(task, 3 if task == "multiclass" else 2))
    assert splits.used_splits(text, ["b.x"]) == {}
    model = splits.materialise(text, {}, {"b.x": (LOWER, UPPER)})
    assert predict(model, np.full((30, 1), 7.0)).tobytes() == predict(text, frame.matrix).tobytes()


def test_the_text_is_deterministic_and_tells_nothing_local() -> None:
    """Whatever the number of threads; rows enough that they share the work."""
    rng = np.random.RandomState(1)
    matrix = rng.randint(1, 50, size=(5000, 6)).astype(float)
    label = matrix[:, 0] * matrix[:, 1] / 100 + rng.normal(size=5000)
    names = tuple(f"b.f{i}" for i in range(6))
    frame = Frame(names, matrix, (), names)
    made = {
        train(frame, label, Parameters("regression", 0, 10, 0.3, 4, 0, n, "xgboost"))  # type: ignore[arg-type]
        for n in (1, 2, 2)
    }
    assert len(made) == 1
    assert not {"nthread", "seed", "device"} & set(made.pop().split('"'))


def test_numbers_beyond_32_bits_are_as_far_as_can_be() -> None:
    """XGBoost refuses infinity, and what 32 bits make infinite."""
    values = np.array([-np.inf, -1e300, -1.0, 0.0, 1.0, 1e300, np.inf, np.nan] * 20)
    label = np.nan_to_num(np.sign(values), nan=5.0)
    frame = Frame(("a.x",), values[:, None], (), ())
    text = train(frame, label, parameters("regression", 0, trees=30))
    assert np.abs(predict(text, frame.matrix) - label).max() < 0.1
    assert "Infinity" not in text


@pytest.mark.parametrize("task", TASKS)
def test_contributions_add_up_to_the_raw_score(task: str) -> None:
    _, model, _, on_values, _ = trained(fixed(), task)
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


def test_what_cannot_be_replaced_is_an_error() -> None:
    partial, *_ = trained(fixed(), "binary")
    used = splits.used_splits(partial, ["b.é1"])["b.é1"]
    values = {rank: float(rank) for rank in used[1:]}
    with pytest.raises(ContractError, match="é1 has no value"):
        splits.materialise(partial, {"b.é1": values}, {"b.é1": (LOWER, UPPER)})
    wide = {rank: 2.0**24 + rank + 0.5 for rank in used}
    with pytest.raises(ContractError, match="needs more than XGBoost's 32 bits"):
        splits.materialise(partial, {"b.é1": wide}, {"b.é1": (LOWER, UPPER)})


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"trees": []}', '{"learner": {"feature_names": [], "trees": 1}}']
)
def test_a_text_that_is_no_model(text: str) -> None:
    with pytest.raises(ContractError, match="no XGBoost JSON model"):
        model_of(text)


def test_parsing_and_writing_changes_nothing() -> None:
    _, model, *_ = trained(fixed(), "multiclass")
    assert JsonModel.parse(model).text() == model
    assert backend_of(model).name == "XGBoost"


@pytest.mark.parametrize(("rows", "features"), [(0, 1), (30, 0)])
def test_nothing_to_learn_from(rows: int, features: int) -> None:
    frame = Frame(("b.x",)[:features], np.ones((rows, features)), (), ())
    with pytest.raises(ContractError, match="no row or no feature"):
        train(frame, np.ones(rows), parameters("regression", 0))


def test_without_the_extra_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    frame = Frame(("b.x",), np.ones((30, 1)), (), ("b.x",))
    with pytest.raises(ConfigError, match=r"XGBoost, which is not installed"):
        train(frame, np.arange(30.0), parameters("regression", 0))
