"""`overlap: left`: all rows of the label holder, with missing values where a holder lacks them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest
from pydantic import ValidationError

from opboost_ops import api
from opboost_ops.config.federation import IdColumn
from opboost_ops.errors import PolicyError
from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.learning import metrics as metrics_of
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import HOLDERS, dataset, held_out, predicted, scoring

SCORED = {mode: f"{k + 30:016x}" for k, mode in enumerate(("desensitised", "routed", "local"))}


def whom_b0_lacks() -> Dataset:
    """A third of the people is not at ``b0``, and nearly all of these have one label."""
    made = dataset("binary")
    number = pl.col("id").str.slice(1).cast(pl.Int64)
    absent, rare = number % 3 == 0, number % 21 == 0
    label = pl.when(absent & ~rare).then(pl.lit("yes")).otherwise(pl.col("y"))
    tables = {
        **made.tables,
        "a": made.tables["a"].with_columns(y=label),
        "b0": made.tables["b0"].filter(~absent),
    }
    new = {**made.new_rows, "b0": tables["b0"]}
    return replace(made, tables=tables, new_rows=new)


def written(folder: Path, **training: object) -> Workspace:
    workspace = Workspace.write(
        folder / "federation",
        whom_b0_lacks(),
        training={"trees": 8, "depth": 3, **training},
        scoring={"mode": "desensitised", "evaluate": ["routed", "local"]},
    )
    workspace.declare("federation.yaml", alignment={"overlap": "left"})
    return workspace


def allow(workspace: Workspace, *holders: str) -> None:
    for holder in holders:
        workspace.declare(f"{holder}/policy.yaml", alignment={"members": ["all", "each"]})


def groups(workspace: Workspace, people: pl.DataFrame) -> pl.Series:
    """Whether all, some or none of the feature holders have the people, by their tables."""
    tables = [pl.read_parquet(workspace.table_path(holder)) for holder in HOLDERS]
    having = sum(people["id"].is_in(table["id"].implode()).cast(pl.Int8) for table in tables)
    assert isinstance(having, pl.Series)
    names = {0: "own", 1: "partial", 2: "complete"}
    return having.replace_strict(names, return_dtype=pl.String)


@pytest.mark.parametrize("trainer", ["lightgbm", pytest.param("xgboost", marks=pytest.mark.slow)])
def test_every_row_is_learnt_from_and_scored_as_it_was_evaluated(
    tmp_path: Path, trainer: str
) -> None:
    workspace = written(tmp_path, trainer=trainer)
    allow(workspace, *HOLDERS)

    workspace.all()

    own = pl.read_parquet(workspace.table_path("a"))
    facts = workspace.home_json("a", "alignment")
    assert facts["train"] + facts["holdout"] == own.height
    assert not [place for place in workspace.published() if place.startswith("shares/")]
    people = held_out(workspace)
    holdout = feather.read_table(workspace.home("a") / "holdout_frame.arrow")
    for holder, column in (("b0", "w"), ("b1", "v")):
        there = people["id"].is_in(pl.read_parquet(workspace.table_path(holder))["id"].implode())
        missing = np.isnan(holdout.column(f"{holder}.{column}").to_numpy())
        assert 0 < missing.sum() < len(missing)
        assert missing.tolist() == (~there).to_list()
    # A lack that says so much is learnt from.
    splits = workspace.home_json("a", "frame")["highest"]
    assert splits["b0.w"] >= 1
    evaluation = workspace.home_json("a", "evaluation")
    metrics = evaluation["metrics"]
    assert metrics["federated_desensitised"]["auc"] > metrics["label_holder_alone"]["auc"]
    _apart(workspace, evaluation["coverage"], groups(workspace, people))

    for mode in SCORED if trainer == "lightgbm" else ("desensitised",):
        run = scoring(workspace, mode, SCORED[mode])
        run.all()
        (file,) = (workspace.folder / "a" / "scores").rglob(f"{mode}*")
        scores = pl.read_parquet(file)
        assert sorted(scores["id"]) == sorted(own["id"])
        for name in set(scores.columns) - {"id"}:
            # No declared ID can take the place of a score.
            with pytest.raises(ValidationError):
                IdColumn(column=name, type="string")
        same = people.select("id").join(scores, on="id", how="left", maintain_order="left")
        assert same["score"].to_numpy().tobytes() == predicted(workspace, mode).tobytes()
        if mode != "local":
            assert scores["coverage"].to_list() == groups(workspace, scores).to_list()
            served = api.Scorer(workspace.folder / "a", workspace.folder).score_frame(
                pl.read_parquet(workspace.folder / "a" / "tables" / "score.parquet")
            )
            served = scores.select("id").join(served, on="id", how="left", maintain_order="left")
            assert served.select(scores.columns).equals(scores)


def _apart(workspace: Workspace, found: Any, group: pl.Series) -> None:
    """Metrics by group are those of the group's rows, in the evaluation, on the card, its page."""
    truth = (held_out(workspace)["y"] == "yes").to_numpy().astype(float)
    prediction = predicted(workspace, "desensitised")
    assert set(found) == set(group) == {"complete", "partial", "own"}
    for name, of in found.items():
        rows = (group == name).to_numpy()
        assert of["rows"] == rows.sum()
        if len(set(truth[rows])) == 1:
            assert (name, of["metrics"]) == ("own", {})
            continue
        expected = metrics_of.evaluate("binary", truth[rows], prediction[rows])
        assert of["metrics"]["federated_desensitised"] == expected
        assert "auc" in of["metrics"]["label_holder_alone"]
    folder = workspace.version(FIRST_RUN)
    assert json.loads((folder / "card.json").read_bytes())["coverage"] == found
    assert "in some feature holders" in (folder / "card.html").read_text()


def test_one_holder_needs_no_further_consent(tmp_path: Path) -> None:
    """Whether all have a person, and whether the one has them, are the same."""
    made = whom_b0_lacks()
    few = {party: table for party, table in made.tables.items() if party != "b1"}
    features = {party: of for party, of in made.features.items() if party != "b1"}
    new_rows = {party: of for party, of in made.new_rows.items() if party != "b1"}
    one = replace(made, tables=few, features=features, new_rows=new_rows)
    workspace = Workspace.write(tmp_path / "federation", one, training={"trees": 3, "depth": 2})
    workspace.declare("federation.yaml", alignment={"overlap": "left"})

    workspace.all()

    facts = workspace.home_json("a", "alignment")
    assert facts["train"] + facts["holdout"] == one.tables["a"].height
    assert set(workspace.home_json("a", "evaluation")["coverage"]) == {"complete", "own"}


def test_a_policy_that_does_not_allow_it_refuses(tmp_path: Path) -> None:
    workspace = written(tmp_path)
    allow(workspace, "b1")

    step, error = workspace.first_failure()

    assert step.startswith("b0.")
    assert isinstance(error, PolicyError)
    assert not [p for p in workspace.published() if p in ("ranks/b0", "psi_answer/b0")]
