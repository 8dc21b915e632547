"""`members: each`: all rows of the label holder, with missing values where a holder lacks them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.config.loading import load_federation
from opboost_ops.datasets.dataset import Dataset
from opboost_ops.errors import ConfigError, PolicyError
from tests.federation import Workspace
from tests.unit.stages.scoring_data import HOLDERS, dataset, held_out, predicted, scoring

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
    workspace.edit_yaml("federation.yaml", lambda d: d.update(alignment={"members": "each"}))
    return workspace


def allow(workspace: Workspace, *holders: str) -> None:
    for holder in holders:
        workspace.edit_yaml(
            f"{holder}/policy.yaml", lambda d: d["alignment"].update(members=["all", "each"])
        )


@pytest.mark.parametrize("trainer", ["lightgbm", "xgboost"])
def test_every_row_is_learnt_from_and_scored_as_it_was_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str
) -> None:
    workspace = written(tmp_path, trainer=trainer)
    workspace.known_to(monkeypatch)
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
    metrics = workspace.home_json("a", "evaluation")["metrics"]
    assert metrics["federated_desensitised"]["auc"] > metrics["label_holder_alone"]["auc"]

    for mode in SCORED if trainer == "lightgbm" else ("desensitised",):
        run = scoring(workspace, mode, SCORED[mode])
        run.all()
        (file,) = (workspace.folder / "a" / "scores").rglob(f"{mode}*")
        scores = pl.read_parquet(file)
        assert sorted(scores["id"]) == sorted(own["id"])
        same = people.select("id").join(scores, on="id", how="left", maintain_order="left")
        assert same["score"].to_numpy().tobytes() == predicted(workspace, mode).tobytes()


def test_a_policy_that_does_not_allow_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = written(tmp_path)
    workspace.known_to(monkeypatch)
    allow(workspace, "b1")

    step, error = workspace.first_failure()

    assert step.startswith("b0.")
    assert isinstance(error, PolicyError)
    assert not [p for p in workspace.published() if p in ("ranks/b0", "psi_answer/b0")]


@pytest.mark.parametrize(
    "training", [{"trainer": "dpboost", "private": {"epsilon": 1.0}}, {"denoise": "joint"}]
)
def test_trainers_that_take_no_missing_values_are_refused(
    tmp_path: Path, training: dict[str, object]
) -> None:
    workspace = written(tmp_path)
    workspace.edit_yaml("federation.yaml", lambda d: d["training"].update(training), agree=False)
    with pytest.raises(ConfigError) as caught:
        load_federation(workspace.file)
    assert "alignment.members" in [fault.where for fault in caught.value.faults]
