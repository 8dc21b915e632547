"""Whole runs with XGBoost, also beside a champion of LightGBM."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xgboost

from opboost_ops.config.columns import columns_of
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.files import integers
from opboost_ops.extras.export.export import export_model
from opboost_ops.learning.boosters.trainer import model_of, predict
from opboost_ops.learning.registry.registry import model_in
from opboost_ops.pipeline.inputs.model_columns import frame_of
from opboost_ops.pipeline.stage import Home
from tests.federation import SECOND_RUN, Workspace


def trainer(workspace: Workspace, **entries: object) -> None:
    workspace.declare("federation.yaml", training=entries)


def clear_holdout(workspace: Workspace) -> np.ndarray:
    """The held-out rows with the exact domain values, which only their holders have."""
    home = Home(workspace.home("credit"))
    frame = frame_of(home.table("holdout_frame"), home.json("frame"))
    federation, train = workspace.declared, home.json("alignment")["train"]
    for party in federation.feature_holders:
        rows = workspace.common_rows(party)[train:]
        table = Home(workspace.home(party)).table("pinned").take(rows)
        for column in columns_of(federation, party):
            values = integers(table, column.source)
            at = frame.names.index(f"{party}.{column.name}")
            frame.matrix[:, at] = values if column.bit is None else values == column.bit
    return frame.matrix


@pytest.mark.slow
def test_a_challenger_of_xgboost_in_routed_scoring(tmp_path: Path) -> None:
    """One route request serves both models, the champion's ``<=`` and the challenger's ``<``."""
    first = Workspace.write(
        tmp_path / "first",
        scoring={"mode": "routed", "evaluate": ["desensitised"]},
        training={"trees": 6, "depth": 3, "tolerance": 1.0},
    )
    first.all()
    workspace = Workspace(first.folder, SECOND_RUN)
    trainer(workspace, trainer="xgboost")
    workspace.all()
    home = Home(workspace.home("credit"))
    model = home.read("model.json").decode()
    matrix = clear_holdout(workspace)
    predictions = home.table("predictions")
    found = predictions.column("routed").to_numpy()
    assert found.tobytes() == predict(model, matrix).tobytes()
    noisy = frame_of(home.table("holdout_frame"), home.json("frame")).matrix
    found = predictions.column("desensitised").to_numpy()
    assert found.tobytes() == predict(model, noisy).tobytes()
    gate = home.json("gate")
    assert "on the same rows" in gate["why"]
    assert gate["promote"]
    champion = model_in(first.registry.files(first.run))
    evaluated = json.loads(Home(first.home("credit")).read("evaluation.json"))["metrics"]
    assert gate["value"] == evaluated["federated_routed"]["auc"]
    thresholds = set().union(*model_of(champion).numeric_splits().values())
    assert thresholds & set().union(*model_of(model).integer_comparisons().values())

    files = workspace.files("credit", "models", "credit_scoring", SECOND_RUN)
    assert export_model(files) == export_model(files, "json") == files["model.json"]
    assert "model.txt" not in files
    for form in ("text", "onnx"):
        with pytest.raises(ConfigError, match="Models of XGBoost are exported as json, not as"):
            export_model(files, form)
    card = json.loads(files["card.json"])
    assert card["software"]["XGBoost"] == xgboost.__version__
    assert "LightGBM" not in card["software"]
    assert (card["training"]["trainer"], card["importance"][0]["value"] > 0) == ("xgboost", True)
    assert "computed by XGBoost" in files["card.html"].decode()

    for mode, run in (("routed", "0" * 15 + "b"), ("desensitised", "0" * 15 + "c")):
        workspace.declare("federation.yaml", scoring={"mode": mode})
        scoring = workspace.scoring(run)
        told = scoring.all()["credit.score"]
        assert (told["mode"], told["version"]) == (mode, SECOND_RUN)
        scores = Home(scoring.home("credit")).table("scores").column("score").to_numpy()
        assert len(scores) == told["rows"] > 20
        assert len(np.unique(scores)) > 5


def test_a_missing_extra_is_told_before_anything_is_published(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer(workspace, trainer="xgboost")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    step, error = workspace.first_failure()
    assert (step, type(error)) == ("open_run", ConfigError)
    assert "XGBoost, which is not installed here" in str(error)
    assert "opboost-ops[xgboost]" in error.remedy
    assert workspace.published() == []
