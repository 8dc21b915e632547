"""The library from Python: typed objects and frames; several runs and all parties here."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import pytest

from opboost_ops import api
from opboost_ops.config.loading import site_file, use_sites
from opboost_ops.errors import ConfigError, ContractError
from tests import notebooks
from tests.federation import Workspace
from tests.integration.pipeline.scoring_data import NAME, dataset

NOTEBOOK = Path(__file__).resolve().parents[3] / "docs" / "examples" / "federation.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom() -> None:
    """And what it shows is what its file has: `python -m tests.notebooks FILE` keeps that."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = notebooks.run(notebook, names)
    kept = {
        at: set(cell["outputs"][0]["data"])
        for at, cell in enumerate(notebook["cells"])
        if cell.get("outputs")
    }
    assert {at: set(data) for at, data in shown.items()} == kept
    assert sum("<svg" in data.get("text/html", "") for data in shown.values()) == 3
    scores = names["scored"].scores
    assert scores.height > 0 and {"score", "class", "model_version"} <= set(scores.columns)
    assert names["scored"].version in (names["trained"].version, names["again"].version)
    assert not [name for name in os.environ if name.startswith("OPBOOST_SITE_")]


@pytest.mark.slow
def test_several_runs_at_once_each_know_their_own_parties(tmp_path: Path) -> None:
    """Federations of one name, with parties of the same names, at the same time."""
    found = {}
    for at, task in enumerate(("binary", "regression")):
        Workspace.write(tmp_path / task, dataset(task), training={"trees": 3 + at, "depth": 2})
    with ThreadPoolExecutor(2) as pool:
        jobs = {task: pool.submit(api.run, tmp_path / task) for task in ("binary", "regression")}
        found = {task: job.result() for task, job in jobs.items()}
    assert {"model", "accuracy", "auc"} <= set(found["binary"].metrics.columns)
    assert {"model", "mse", "r2"} <= set(found["regression"].metrics.columns)
    for task, trained in found.items():
        assert trained.card.task == task and trained.card.run == trained.version
        booster = lightgbm.Booster(model_str=trained.model)
        assert booster.num_trees() == (3 if task == "binary" else 4)
        assert api.card(tmp_path / task, trained.version) == trained.card
        state = api.ledger(tmp_path / task / "b0")
        assert state.party == "b0" and state.columns.height == 2
        assert (state.columns["releases"].list.len() == 1).all()
        assert (state.columns["loss"] > 0).all()
        assert "split_values" in state.exact["kind"].to_list()
        assert (tmp_path / task / "a" / "models" / NAME / trained.version).is_dir()
    # The same rows under the same seed give the same model.
    again = api.run(tmp_path / "binary", trees=3)
    assert again.model == found["binary"].model
    assert np.isclose(again.metrics["auc"].sum(), found["binary"].metrics["auc"].sum())


def test_check_says_what_leaves_and_what_is_wrong(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path, dataset("binary"))
    checked = api.check(workspace.file)
    assert checked.faults == () and checked.federation.name == NAME
    assert checked.leaves.columns == [
        "party", "column", "mechanism", "epsilon", "loss_1", "loss_whole",
    ]  # fmt: skip
    assert set(checked.leaves["party"]) == {"b0", "b1"}
    workspace.edit_table("b0", lambda t: t.drop("w"))
    faults = api.check(workspace.folder).faults
    assert faults and any("w" in str(fault) for fault in faults)
    with pytest.raises(ConfigError, match="num_leavs"):
        api.run(workspace.file, parameters={"num_leavs": 3})
    with pytest.raises(ContractError, match="no champion"):
        api.card(workspace.file)


def test_a_failure_is_the_party_s_own_and_ends_the_run(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path, dataset("binary"))
    workspace.edit_table("b1", lambda t: t.with_columns(pl.lit(None, pl.Float64).alias("v")))
    seen: list[tuple[str, str]] = []
    with pytest.raises(ContractError, match="b1"):
        api.run(
            workspace.file,
            listener=lambda party, event: seen.append((party, event["stage"])),
        )
    assert ("a", "train") not in seen and ("b0", "check_table") in seen


def test_a_thread_knows_no_site_but_those_it_was_given(tmp_path: Path) -> None:
    with use_sites({"bank": tmp_path / "site.yaml"}):
        assert site_file("bank") == tmp_path / "site.yaml"
        with pytest.raises(ConfigError, match="OPBOOST_SITE_SHOP is not set"):
            site_file("shop")
        with ThreadPoolExecutor(1) as pool, pytest.raises(ConfigError):
            pool.submit(site_file, "bank").result()
