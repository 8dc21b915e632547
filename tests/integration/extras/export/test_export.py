"""Exports: the same model to the bit, and words for its columns."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from opboost_ops.errors import ConfigError
from opboost_ops.extras.export.export import export_model, model_columns
from opboost_ops.learning import splits
from opboost_ops.learning.boosters.trainer import Frame, Parameters, predict, train
from opboost_ops.learning.boosters.trainer import model_of as text_of
from tests.federation import Workspace

TASKS = ["binary", "multiclass", "regression"]


def model_of(task: str) -> tuple[str, np.ndarray]:
    """A model on own numbers and categories with gaps, and on others' values; and rows for it.

    ``a.when`` counts seconds since 1970: its thresholds need more than 32 bits.
    """
    rng = np.random.RandomState(0)
    rows = 800
    number, codes = rng.normal(size=rows), rng.randint(0, 6, size=rows).astype(float)
    when, values = 1.7e9 + rng.permutation(rows), rng.randint(1, 41, size=(rows, 2))
    score = number + 2.0 * np.isin(codes, (1, 4)) + np.sin(when / 90) + values.sum(axis=1) / 20
    number[::5], codes[::7] = np.nan, np.nan
    label = score
    if task != "regression":
        classes = 2 if task == "binary" else 3
        label = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score) * 1.0
    names = ("a.number", "a.kind", "a.when", "b.first", "b.second")
    matrix = np.column_stack([number, codes, when, values])
    frame = Frame(names, matrix, ("a.kind",), names[3:])
    count = 0 if task == "regression" else len(np.unique(label))
    partial = train(frame, label, Parameters(task, count, 12, 0.3, 4, 0, 1))  # type: ignore[arg-type]
    halves = {
        name: {rank: rank + 0.5 for rank in ranks}
        for name, ranks in splits.used_splits(partial, names[3:]).items()
    }
    unseen = matrix[:40].copy()
    unseen[:, :3] = (np.nan, 99, np.nan)
    model = splits.materialise(partial, halves, dict.fromkeys(names[3:], (1, 40)))
    return model, np.vstack([matrix, unseen])


@pytest.mark.parametrize("task", TASKS)
def test_every_form_is_the_same_model_to_the_bit(task: str, tmp_path: Path) -> None:
    model, matrix = model_of(task)
    files = {"model.txt": model.encode()}
    path = tmp_path / "model.txt"
    path.write_bytes(export_model(files, "text"))
    expected = predict(model, matrix)
    assert lightgbm.Booster(model_file=path).predict(matrix).tobytes() == expected.tobytes()
    # Decimals read back as the same floats, also where thresholds need more than 32 bits.
    dumped = json.loads(export_model(files, "json"))
    assert dumped == lightgbm.Booster(model_str=model).dump_model()
    kinds = [node for tree in dumped["tree_info"] for node in nodes(tree["tree_structure"])]
    assert {node["decision_type"] for node in kinds} == {"<=", "=="}
    assert {node["missing_type"] for node in kinds} == {"NaN"}
    split = {n["threshold"] for n in kinds if n["split_feature"] == 2}
    assert split == set(text_of(model).numeric_splits()["a.when"])


def nodes(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "leaf_value" in node:
        return []
    return [node, *nodes(node["left_child"]), *nodes(node["right_child"])]


@pytest.mark.parametrize("form", ["pickle", ""])
def test_other_forms_are_refused(form: str) -> None:
    with pytest.raises(ConfigError, match="exported as text, json, onnx, not as"):
        export_model({"model.txt": b"tree"}, form)


def test_the_words_say_how_each_column_is_made(trained_once: Workspace) -> None:
    files = trained_once.files("credit", "models", "credit_scoring", trained_once.run)
    found = {column.name: column for column in model_columns(files).columns}
    words = {name: column.values for name, column in found.items()}
    assert words["credit.age"] == "The raw number."
    assert words["credit.earlier_loans"] == "The raw number; NaN where missing."
    assert found["credit.employment"].categories == tuple(
        json.loads(files["columns.json"])["categories"]["credit.employment"]
    )
    assert words["bank.overdrafts"] == (
        "1 + ceil(a * 9 / b), where a = x - lower and b = upper - lower, and x is the number, "
        "clipped to lower 0 and upper 9."
    )
    assert "a = log1p(x - lower) and b = log1p(upper - lower)" in words["shop.orders_a_year"]
    assert words["bank.income"].startswith("1 + the number of `declared.scale.edges` below x")
    assert words["bank.income"].endswith("; a missing value counts as 2500.0.")
    assert words["shop.returns_share=missing"] == "1 where the value was missing, 0 elsewhere."
    bits = [name for name in words if name.startswith("shop.payment=")]
    assert len(bits) == 4
    for name in bits:
        assert words[name] == f'1 where the category is "{name.split("=")[1]}", 0 elsewhere.'
    assert found["bank.income"].declared["scale"]["edges"][0] == 900
    assert set(found["shop.returns_share"].declared["missing"]) == {"fill"}
