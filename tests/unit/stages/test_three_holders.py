"""Three feature holders, each without some of the people: what is learnt and scored is a join.

At a huge epsilon noise is nil, so ranks and values are those of the plain tables.
"""

import json
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import polars as pl
import pytest

from opboost_ops.extras.datasets.dataset import Dataset
from opboost_ops.pipeline.home import Home
from tests.federation import Workspace
from tests.unit.stages.scoring_data import COLOURS, clear, dataset, scoring

#: Columns of each holder, as the trained model names them.
COLUMNS = {"b0": ["b0.w", "b0.size"], "b1": ["b1.v"], "b2": ["b2.colour"]}


def of_three() -> Dataset:
    """The colours are at a third holder, which has people whom the second one lacks."""
    made = dataset("binary")
    whole, number = made.tables["a"], pl.col("id").str.slice(1).cast(pl.Int64)
    colours = whole.select("id", colour="b1.colour")
    strangers = pl.DataFrame({"id": [f"x{i}" for i in range(9)], "colour": ["red"] * 9})
    tables = {
        **made.tables,
        "b1": made.tables["b1"].drop("colour"),
        "b2": pl.concat([strangers, colours.filter(number % 11 != 2)]),
    }
    features = {
        **made.features,
        "b0": {**made.features["b0"], "w": {"bounds": [0, 1], "missing": {"fill": 0.5}}},
        "b1": {"v": made.features["b1"]["v"]},
        # As categories one by one they would have noise at any epsilon.
        "b2": {"colour": {"type": "ordinal", "categories": list(COLOURS)}},
    }
    new = {**tables, "a": tables["a"].drop("y")}
    return replace(made, tables=tables, features=features, new_rows=new)


def joined(workspace: Workspace, purpose: str, overlap: str) -> pl.DataFrame:
    """The plain join of the parties' tables: clear domain values by column, missing for whom."""
    tables = {p: pl.read_parquet(workspace.folder / p / "tables" / f"{purpose}.parquet")
              for p in ("a", *COLUMNS)}  # fmt: skip
    people = tables["a"]
    # Everybody's clear values; who is missing at a holder is taken out of them afterwards.
    colour = np.array([COLOURS.index(c) for c in people["b1.colour"]])
    values = {**clear(people), "b2.colour": np.ceil(1 + colour / 2 * 9)}
    found = people.select("id", "x", "kind").with_columns(
        **{name: values[name] for names in COLUMNS.values() for name in names}
    )
    for holder, names in COLUMNS.items():
        there = pl.col("id").is_in(tables[holder]["id"].implode())
        found = found.with_columns(pl.when(there).then(pl.col(n)).alias(n) for n in names)
    return found.drop_nulls(list(np.concatenate(list(COLUMNS.values())))) if overlap == "common" \
        else found  # fmt: skip


def predicted(model: str, facts: Path, rows: pl.DataFrame) -> np.ndarray:
    """What stock LightGBM says of joined rows."""
    booster = lightgbm.Booster(model_str=model)
    columns = rows.rename({"x": "a.x", "kind": "a.kind"})
    codes = {
        c: float(k) for k, c in enumerate(json.loads(facts.read_bytes())["categories"]["a.kind"])
    }
    kind = columns["a.kind"].replace_strict(codes, default=None, return_dtype=pl.Float64)
    columns = columns.with_columns(kind.alias("a.kind"))
    whole = columns.select(booster.feature_name()).cast(pl.Float64).fill_null(float("nan"))
    return np.asarray(booster.predict(whole.to_numpy()))


@pytest.fixture(scope="module", params=["common", pytest.param("left", marks=pytest.mark.slow)])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Workspace]:
    workspace = Workspace.write(
        tmp_path_factory.mktemp(request.param) / "federation",
        of_three(),
        epsilon=1000.0,
        training={"trees": 8, "depth": 3},
        scoring={"mode": "desensitised", "evaluate": ["desensitised", "routed"]},
    )
    if request.param == "left":
        workspace.declare("federation.yaml", alignment={"overlap": "left"})
        for holder in COLUMNS:
            workspace.declare(f"{holder}/policy.yaml", alignment={"members": ["all", "each"]})
    workspace.all()
    return request.param, workspace


def test_training_is_on_the_rows_of_a_plain_join(trained: tuple[str, Workspace]) -> None:
    overlap, workspace = trained
    home = Home(workspace.home("a"))
    join = joined(workspace, "train", overlap)
    own = pl.read_parquet(workspace.table_path("a"))
    rows = home.table("alignment").column("position").to_numpy()
    people = own[rows].select("id")
    assert sorted(people["id"]) == sorted(join["id"])
    assert 0.5 * own.height < people.height
    assert (people.height == own.height) == (overlap == "left")
    in_order = people.join(join, on="id", how="left", maintain_order="left")
    for holder, names in COLUMNS.items():
        # A rank is a value's place among those of the holder's whole table.
        opened = pl.DataFrame(home.table(f"opened-{holder}"))
        ranked = pl.DataFrame(Home(workspace.home(holder)).table("randomised"))
        for name in names:
            column = name.removeprefix(f"{holder}.")
            values = np.unique(ranked[column].to_numpy())
            there = in_order[name].is_not_null().to_numpy()
            assert opened[column].is_not_null().to_numpy().tolist() == there.tolist()
            ranks = 1 + np.searchsorted(values, in_order[name].drop_nulls().to_numpy())
            assert opened[column].drop_nulls().to_list() == ranks.tolist(), name
    metrics = workspace.home_json("a", "evaluation")["metrics"]
    better = metrics["federated_desensitised"]["auc"]
    assert better > metrics["label_holder_alone"]["auc"]
    shared = any(place.startswith("shares/") for place in workspace.published())
    assert shared == (overlap == "common")


@pytest.mark.parametrize("mode", ["desensitised", "routed"])
def test_scores_are_those_of_a_plain_join(trained: tuple[str, Workspace], mode: str) -> None:
    overlap, workspace = trained
    run = scoring(workspace, mode, f"{len(mode):016x}")
    run.all()
    found = pl.DataFrame(Home(run.home("a")).table("scores"))
    join = joined(workspace, "score", overlap)
    scores = join.select("id").join(found, on="id", how="left", maintain_order="left")
    assert found.height == join.height
    version = workspace.version()
    model = (version / "model.txt").read_text()
    expected = predicted(model, version / "columns.json", join)
    assert scores["score"].to_numpy().tobytes() == expected.tobytes()
