"""Whole runs with objectives, weights, early stopping and tuning; what leaves, and what not."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.learning import metrics, tuning
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.trainer import model_of, parameters_of
from opboost_ops.pipeline.inputs.model_columns import frame_of
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import HOLDERS, dataset
from tests.party_state import entries_of

PARTIES = ("a", *HOLDERS)
TUNING = 4


def made(folder: Path, task: str, **training: Any) -> Workspace:
    training = {"trees": 6, "depth": 3, **training}
    return Workspace.write(folder, dataset(task), training=training, seed=0)


def model(workspace: Workspace) -> str:
    return (workspace.version(FIRST_RUN) / "model.txt").read_text()


def card(workspace: Workspace) -> dict[str, Any]:
    path = workspace.version(FIRST_RUN) / "card.json"
    return json.loads(path.read_text())


def lines(workspace: Workspace) -> dict[str, list[tuple[str, str, int]]]:
    found = {}
    for party in PARTIES:
        found[party] = [(e.kind, e.account, e.rows) for e in entries_of(workspace, party)]
    return found


def test_no_trial_adds_a_line_or_says_how_good_it_was(tmp_path: Path) -> None:
    plain = made(tmp_path / "plain", "binary")
    plain.all()
    before, untuned = lines(plain), model(plain)
    tuned = made(tmp_path / "tuned", "binary", tuning=TUNING)
    summaries = tuned.all()
    after = lines(tuned)
    for party in PARTIES:
        # The winner asks at other ranks, or at none of a party: rows of these lines alone differ.
        same = [[(kind, account) for kind, account, _ in of[party]] for of in (before, after)]
        assert same[0] == same[1]
    assert model(tuned) != untuned
    home = tuned.home("a")
    scores = [
        json.loads(line)["score"] for line in (home / "trials.jsonl").read_text().splitlines()
    ]
    # Four for the common model, and four for the label holder's columns alone.
    assert len(scores) == 8 and len(set(scores)) > 1
    assert (home / "trials.jsonl").stat().st_mode & 0o077 == 0
    # Not in what others see, and not in what goes with the model.
    seen = json.dumps(summaries) + "".join(
        content.decode(errors="replace")
        for folder in ("exchange", "a/models", *HOLDERS)
        for content in tuned.files(folder).values()
    )
    assert not [score for score in scores if repr(score) in seen or f"{score:.6f}" in seen]
    winner = json.loads((home / "tuned.json").read_text())
    shown = card(tuned)
    assert shown["training"]["trees"] == winner["trees"]
    assert "4 trials, by auc in 3 folds" in " ".join(shown["training_words"])
    asked = [e.discloses for e in entries_of(tuned, "a") if e.kind == "split_request"]
    assert asked and all("tuning's winner" in line for line in asked)


def test_a_bad_choice_for_the_common_model_makes_the_baseline_no_worse(tmp_path: Path) -> None:
    bad = {"trees": 300, "depth": 8, "learning_rate": 0.9}
    workspace = made(tmp_path, "regression", **bad)
    workspace.all()
    facts = workspace.home_json("a", "frame")
    train, holdout = (
        feather.read_table(workspace.home("a") / f"{name}.arrow")
        for name in ("frame", "holdout_frame")
    )
    frame, label = frame_of(train, facts, "a."), np.array(train.column("label").to_numpy())
    same = trainer.train(frame, label, parameters_of(workspace.declared.training, "regression", ()))
    predicted = trainer.predict(same, frame_of(holdout, facts, "a.").matrix)
    truth = np.array(holdout.column("label").to_numpy())
    of_same = metrics.evaluate("regression", truth, predicted)["r2"]
    evaluation = workspace.home_json("a", "evaluation")
    assert evaluation["metrics"]["label_holder_alone"]["r2"] > of_same
    assert evaluation["alone"]["trees"] < 300
    assert "its own parameters" in " ".join(card(workspace)["training_words"])


@pytest.mark.slow
def test_a_retry_goes_on_after_the_last_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = made(tmp_path, "binary", tuning=TUNING)
    workspace.until("train")
    trained: list[int] = []
    real = tuning.out_of_fold_predictions

    def counted(*given: Any) -> np.ndarray:
        trained.append(len(trained))
        if len(trained) == 3:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(tuning, "out_of_fold_predictions", counted)
    with pytest.raises(KeyboardInterrupt):
        workspace.step("a", "train")
    workspace.step("a", "train")
    # Two were kept; the third, which was cut off, and the fourth came now.
    assert len(trained) == 5
    first = (workspace.home("a") / "partial_model.txt").read_bytes()
    workspace.step("a", "train")
    assert len(trained) == 5
    assert (workspace.home("a") / "partial_model.txt").read_bytes() == first
    again = made(tmp_path / "again", "binary", tuning=TUNING)
    again.until("request_splits")
    assert (again.home("a") / "partial_model.txt").read_bytes() == first


def test_parameters_stand_in_the_text_and_a_form_adds_to_them(tmp_path: Path) -> None:
    own = {"num_leaves": 5, "max_bin": 31, "monotone_constraints": {"b0.w": 1}}
    workspace = made(tmp_path, "binary", parameters=own)
    workspace.all({"parameters": {"num_leaves": 4, "lambda_l2": 0.25, "extra_trees": True}})
    section = model(workspace).split("\nparameters:\n")[1]
    for line in ("num_leaves: 4", "lambda_l2: 0.25", "extra_trees: 1", "max_bin: 31"):
        assert f"[{line}]" in section
    assert re.search(r"\[monotone_constraints: 0,0,1,", section)
    page = (workspace.version(FIRST_RUN) / "card.html").read_text()
    assert "num_leaves 4" in page


@pytest.mark.parametrize(
    ("task", "training", "mark"),
    [
        pytest.param(
            "regression",
            {"objective": "l1"},
            "objective=regression_l1",
            marks=pytest.mark.slow,
        ),
        ("regression", {"objective": "poisson"}, "objective=poisson"),
        pytest.param(
            "regression",
            {"objective": "quantile", "parameters": {"alpha": 0.9}},
            "quantile",
            marks=pytest.mark.slow,
        ),
        (
            "multiclass",
            {"early_stopping": 2},
            "num_class:3",
        ),
        pytest.param(
            "regression",
            {"objective": "tweedie", "trainer": "xgboost"},
            "reg:tweedie",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_objectives_go_through_a_whole_run(
    tmp_path: Path, task: str, training: dict, mark: str
) -> None:
    workspace = made(tmp_path, task, **training)
    summaries = workspace.all()
    metrics = summaries["a.evaluate"]["metrics"]
    assert metrics["federated_desensitised"].keys() == metrics["label_holder_alone"].keys()
    if training.get("trainer") != "xgboost":
        assert mark in model(workspace)
    if task == "regression":
        # On the label's own scale: the link is in the model's file.
        assert metrics["federated_desensitised"]["r2"] > -1.5
    if "early_stopping" in training:
        used = model(workspace).count("Tree=")
        assert 3 <= used <= 18 and summaries["a.train"]["trees"] == 6


def test_weights_count_in_training_alone(tmp_path: Path) -> None:
    workspace = made(tmp_path, "binary", weight_column="w")
    workspace.edit_table(
        "a", lambda t: t.with_columns(w=pl.when(pl.col("x") > 0.5).then(0.0).otherwise(2.0))
    )
    workspace.all()
    frame = feather.read_table(workspace.home("a") / "frame.arrow")
    weight, x = frame.column("weight").to_numpy(), frame.column("a.x").to_numpy()
    assert (weight[x > 0.5] == 0).all() and (weight[x <= 0.5] > 0).all()
    assert weight.mean() == pytest.approx(1.0)
    # No tree learnt anything of rows that do not count.
    assert max(model_of(model(workspace)).numeric_splits().get("a.x", [0.0])) <= 0.51
    assert "weighted by the column w;" in " ".join(card(workspace)["training_words"])


@pytest.mark.parametrize(
    ("training", "spoil", "message"),
    [
        ({"weight_column": "w"}, lambda t: t.with_columns(w=pl.lit(-1.0)), "weight_column w holds"),
        ({"objective": "poisson"}, lambda t: t.with_columns(y=-pl.col("y")), "negative numbers"),
    ],
)
def test_what_cannot_be_trained_on_is_told_before_anything_leaves(
    tmp_path: Path, training: dict, spoil: Any, message: str
) -> None:
    workspace = made(tmp_path, "regression", **training)
    workspace.edit_table("a", spoil)
    workspace.open()
    with pytest.raises(ContractError, match=message):
        workspace.step("a", "check_table")
    assert workspace.published() == ["plan/a"]
