"""`opboost models export`: the model, and beside it what its columns must hold."""

import json
from pathlib import Path

import lightgbm

from opboost_ops.pipeline.stage import Home
from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost


def test_a_model_is_exported_with_its_columns(
    trained_once: Workspace, tmp_path: Path, opboost: Opboost
) -> None:
    site, out = trained_once.folder / "credit", tmp_path / "credit.json"
    told = opboost("models", "export", site, "--format", "json", "--out", out).output
    beside = tmp_path / "credit.json.columns.json"
    assert str(out) in told
    assert str(beside) in told
    home = Home(trained_once.home("credit"))
    dumped = json.loads(out.read_bytes())
    assert dumped == lightgbm.Booster(model_str=home.read("model.txt").decode()).dump_model()
    columns = json.loads(beside.read_bytes())
    assert [column["name"] for column in columns["columns"]] == dumped["feature_names"]
    assert (columns["predicts"], columns["classes"]) == ("default", [0, 1])
    assert columns["domain"] == [1, 10]
    assert "raw numbers give meaningless predictions" in columns["note"]
    text = tmp_path / "model.txt"
    opboost("models", "export", site, trained_once.run, "--out", text)
    assert text.read_bytes() == home.read("model.txt")
    portable = tmp_path / "credit.onnx"
    told = opboost("models", "export", site, "--format", "onnx", "--out", portable).output
    assert "mapped" not in told and portable.is_file()
    assert not portable.with_name("credit.onnx.columns.json").exists()


def test_nothing_is_overwritten(trained_once: Workspace, tmp_path: Path, opboost: Opboost) -> None:
    site = trained_once.folder / "credit"
    for number, taken in enumerate(("model.txt", "model.txt.columns.json")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / taken).write_bytes(b"kept")
        error = opboost("models", "export", site, "--out", folder / "model.txt").error
        assert f"{taken} already exists; nothing was written" in error
        assert [path.read_bytes() for path in folder.iterdir()] == [b"kept"]


def test_what_cannot_be_exported_is_one_error(
    trained_once: Workspace, tmp_path: Path, opboost: Opboost
) -> None:
    site = trained_once.folder / "credit"
    error = opboost("models", "export", site, "--out", tmp_path / "no" / "model").error
    assert "model cannot be written" in error
    assert str(tmp_path) not in error
    error = opboost("models", "export", site, "--format", "pmml", "--out", tmp_path / "x").error
    assert "exported as text, json, onnx, not as pmml" in error
    assert (
        "no model version" in opboost("models", "export", site, "v9", "--out", tmp_path / "x").error
    )
    assert list(tmp_path.iterdir()) == []
