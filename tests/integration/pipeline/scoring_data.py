"""A small federation whose people are both trained on and scored, and what its model must say."""

import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import pyarrow.feather as feather

from opboost_ops.extras.datasets.tables import Dataset
from tests.federation import FIRST_RUN, Workspace

NAME = "credit_scoring"  # The driver's paths are those of this federation.
HOLDERS = ("b0", "b1")
COLOURS = ("red", "green", "blue")
SIZES = ("small", "medium", "large")
ROWS = 400


#: FederBoost's way of protecting: edges in each feature's domain, as unequal as they may be.
BUCKETS = {"w": (2, 3, 9), "size": (2, 3), "v": (3, 5, 9)}


def dataset(task: str, buckets: bool = False) -> Dataset:
    """Arithmetic tables of three parties, each of which lacks some of the people.

    The label depends on a number, a missing bit, an order and a category of the feature holders,
    whose raw values the label holder has, too, for mode ``local``. The new rows are the very
    people of the training tables.

    Args:
        task: What is learnt.
        buckets: Whether all but categories are put into buckets.
    """
    i = np.arange(ROWS)
    w = (i * 37) % 101 / 100
    gap = i % 5 == 0
    everybody = {
        "x": (i * 17) % 89 / 88,
        "kind": np.array(["one", "two", "three", None], dtype=object)[i % 4],
        "b0.w": np.where(gap, np.nan, w),
        "b0.size": np.array(SIZES)[(i // 3) % 3],
        "b1.v": (i * 29) % 97 / 24.0,
        "b1.colour": np.array(COLOURS)[(i // 5) % 3],
    }
    signal = np.where(gap, 1.0, w) + 0.4 * everybody["x"] + 0.3 * ((i // 3) % 3)
    signal += 0.6 * ((i // 5) % 3 == 1) + 0.1 * everybody["b1.v"]
    label: dict[str, Any] = {"column": "y", "task": task}
    y: Any = signal * 10
    if task != "regression":
        label["classes"] = ["no", "yes"] if task == "binary" else ["low", "middle", "high"]
        most = len(label["classes"])
        order = np.argsort(np.argsort(signal)) * most // ROWS
        y = np.array(label["classes"])[order]
    ids = np.array([f"p{k:05d}" for k in (i * 7) % ROWS])
    whole = pl.DataFrame({"id": ids, **everybody, "y": y}, strict=False).with_columns(
        pl.col("b0.w").fill_nan(None)
    )
    tables = {"a": whole.filter(i % 17 != 3)}
    for k, party in enumerate(HOLDERS):
        own = {c: c.removeprefix(f"{party}.") for c in whole.columns if c.startswith(f"{party}.")}
        held = whole.select("id", *own).rename(own)
        tables[party] = held.filter(i % 13 != k).reverse()
    features: dict[str, Any] = {
        "a": {"x": {}, "kind": {"type": "nominal", "missing": "keep"}},
        "b0": {
            "w": {"bounds": [0, 1], "missing": {"fill": 0.5, "bit": 8.0}},
            "size": {"type": "ordinal", "categories": list(SIZES)},
        },
        "b1": {
            "v": {"bounds": [0, 4]},
            "colour": {"type": "nominal", "categories": list(COLOURS)},
        },
    }
    for name, edges in BUCKETS.items() if buckets else ():
        declared = features["b0" if name in features["b0"] else "b1"][name]
        declared["mechanism"] = {"name": "bucket_response", "epsilon": 8.0, "edges": edges}
    new_rows = {**tables, "a": tables["a"].drop("y")}
    return Dataset(NAME, task, tables, "a", label, features, 0.2, 8.0, (1, 10), new_rows)  # type: ignore[arg-type]


def clear(people: pl.DataFrame) -> dict[str, np.ndarray]:
    """Domain values of the feature holders' columns, without noise, by full name.

    Args:
        people: Rows of the label holder's table.
    """
    w = people["b0.w"].fill_null(0.5).to_numpy()
    size = np.array([SIZES.index(s) for s in people["b0.size"]])
    return {
        "b0.w": np.ceil(1 + w * 9),
        "b0.w=missing": people["b0.w"].is_null().to_numpy().astype(float),
        "b0.size": 1.0 + size,
        "b1.v": np.ceil(1 + people["b1.v"].to_numpy() / 4 * 9),
        **{f"b1.colour={c}": (people["b1.colour"] == c).to_numpy().astype(float) for c in COLOURS},
    }


def on_clear_values(
    workspace: Workspace, people: pl.DataFrame, version: str = FIRST_RUN
) -> np.ndarray:
    """What a registered model predicts on clear domain values, by stock LightGBM."""
    folder = workspace.version(version)
    facts = json.loads((folder / "columns.json").read_bytes())
    kinds = {c: float(k) for k, c in enumerate(facts["categories"]["a.kind"])}
    own = {
        "a.x": people["x"].to_numpy(),
        "a.kind": np.array([kinds.get(c, np.nan) for c in people["kind"]]),
    }
    columns = {**own, **clear(people)}
    booster = lightgbm.Booster(model_file=str(folder / "model.txt"))
    return np.asarray(booster.predict(np.column_stack([columns[n] for n in facts["names"]])))


def held_out(workspace: Workspace) -> pl.DataFrame:
    """The label holder's rows that a training run held out, in the order of its predictions."""
    rows = workspace.home_json("a", "alignment")["holdout"]
    positions = feather.read_table(workspace.home("a") / "alignment.arrow").column("position")
    table = pl.read_parquet(workspace.folder / "a" / "tables" / "train.parquet")
    return table[positions.to_numpy()[-rows:]]


def predicted(workspace: Workspace, mode: str) -> np.ndarray:
    """What a training run's evaluation predicted for them, shape (n,) or (n, classes)."""
    table = feather.read_table(workspace.home("a") / "predictions.arrow")
    return np.array(table.column(mode).to_pylist())


def scoring(workspace: Workspace, mode: str, run: str) -> Workspace:
    """The same federation, about to score in a mode."""
    workspace.declare("federation.yaml", scoring={"mode": mode})
    return workspace.scoring(run)


def score_files(workspace: Workspace) -> list[Path]:
    """All that lies in the label holder's folder of scores, whatever its name."""
    folder = workspace.folder / "a" / "scores"
    return sorted(path for path in folder.rglob("*") if path.is_file())
