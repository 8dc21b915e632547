"""Whole runs, in process, of federations of every shape."""

import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.learning.boosters.trainer import predict
from tests.federation import FIRST_RUN, Workspace

NAME = "credit_scoring"  # The driver's paths are those of this federation.


def dataset(task: str, *, own: bool = True, parties: int = 1, classes: Any = None) -> Dataset:
    """Arithmetic tables: the label depends on own and on others' features."""
    rows = 500
    i = np.arange(rows)
    wave = (i * 37) % 101 / 100
    own_x = (i * 17) % 89 / 88
    signal = wave + 0.5 * own_x
    label: dict[str, Any] = {"column": "y", "task": task}
    if task == "regression":
        y: Any = signal * 10
    else:
        most = 3 if task == "multiclass" else 2
        y = np.minimum((signal / signal.max() * most).astype(int), most - 1)
        if classes:
            y = np.array(classes)[y]
            label["classes"] = list(classes)
    ids = [f"p{k:05d}" for k in (i * 7) % rows]
    kinds = np.array(["red", "green", "blue", None], dtype=object)[i % 4]
    mine = {"x": own_x, "kind": kinds} if own else {}
    tables = {"a": pl.DataFrame({"id": ids, **mine, "y": y}, strict=False)}
    features: dict[str, Any] = {
        "a": {"x": {}, "kind": {"type": "nominal", "missing": "keep"}} if own else {}
    }
    sizes = np.array(["small", "medium", "large"])[np.minimum((wave * 3).astype(int), 2)]
    for k in range(parties):
        name = f"b{k}"
        tables[name] = pl.DataFrame({"id": ids[::-1], "w": wave[::-1], "size": sizes[::-1]})
        features[name] = {
            "w": {"bounds": [0, 1]},
            "size": {"type": "ordinal", "categories": ["small", "medium", "large"]},
        }
    return Dataset(NAME, task, tables, "a", label, features, 0.2, 8.0, (1, 10))  # type: ignore[arg-type]


def run(folder: Path, made: Dataset, **options: Any) -> tuple[Workspace, dict[str, Any]]:
    workspace = Workspace.write(folder / "federation", made, **options)
    return workspace, workspace.all()


def frames(workspace: Workspace, table: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, the rows as the booster saw them, and labels, from the label holder's home."""
    names = workspace.home_json("a", "frame")["names"]
    found = feather.read_table(workspace.home("a") / f"{table}.arrow")
    columns = [found.column(name).to_numpy() for name in names]
    return names, np.column_stack(columns), found.column("label").to_numpy()


@pytest.mark.parametrize(
    ("task", "classes", "parties"),
    [
        ("binary", ("no", "yes"), 3),
        pytest.param("multiclass", None, 1, marks=pytest.mark.slow),
        ("multiclass", ("low", "middle", "high"), 3),
        ("regression", None, 1),
    ],
)
def test_every_task_with_any_number_of_feature_holders(
    tmp_path: Path, task: str, classes: Any, parties: int
) -> None:
    made = dataset(task, parties=parties, classes=classes)
    workspace, summaries = run(tmp_path, made)
    metrics = summaries["a.evaluate"]["metrics"]
    better = "r2" if task == "regression" else "auc"
    alone, federated = metrics["label_holder_alone"], metrics["federated_desensitised"]
    assert federated[better] > alone[better]

    # The invariant, through the stages: training rows on ranks and on randomised values.
    names, on_ranks, _ = frames(workspace, "frame")
    on_values = on_ranks.copy()
    train = summaries["a.open_rows"]["train"]
    for at, name in enumerate(names):
        party, _, feature = name.partition(".")
        if party != "a":
            table = feather.read_table(workspace.home(party) / "randomised.arrow")
            values = table.column(feature).to_numpy()[workspace.common_rows(party)]
            on_values[:, at] = values[:train]
    partial = (workspace.home("a") / "partial_model.txt").read_text()
    registered = workspace.version(FIRST_RUN) / "model.txt"
    before, after = predict(partial, on_ranks), predict(registered.read_text(), on_values)
    assert before.tobytes() == after.tobytes()
    assert not np.array_equal(on_ranks, on_values)
    stock = lightgbm.Booster(model_file=str(registered))
    assert stock.feature_name() == names
    assert stock.predict(on_values).tobytes() == after.tobytes()


def test_a_label_holder_without_features(tmp_path: Path) -> None:
    made = dataset("binary", own=False)
    _, summaries = run(tmp_path, made)
    metrics = summaries["a.evaluate"]["metrics"]
    assert metrics["label_holder_alone"]["auc"] == 0.5
    assert metrics["federated_desensitised"]["auc"] > 0.7


def test_the_form_wins_over_the_file(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path / "federation", dataset("binary"))
    workspace.all({"trees": 7, "learning_rate": "", "depth": None})
    version = workspace.version(FIRST_RUN)
    registered = json.loads((version / "federation.json").read_text())
    assert registered["training"]["trees"] == 7
    assert registered["training"]["depth"] == 3
    assert lightgbm.Booster(model_file=str(version / "model.txt")).num_trees() == 7
