"""What a party runs at home: plan, leakage, edges, keys."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from tests.commands import printed, printed_json
from tests.federation import Workspace


def run(folder: Path, *words: str, fails: bool = False) -> str:
    return printed(*words, folder=folder, fails=fails)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.write(tmp_path_factory.mktemp("tools") / "fed")


def test_a_plan_from_the_own_table_says_that_it_discloses(workspace: Workspace) -> None:
    out = run(
        workspace.folder, "plan", "federation.yaml", "--party", "bank", "--max-loss-whole", "3"
    )
    assert "tuned on the party's own table" in out
    picture = (
        workspace.folder / "bank" / "home" / "credit_scoring" / "plan-credit_scoring-bank.html"
    )
    assert "choices based on it are not charged" in picture.read_text()
    assert picture.stat().st_mode & 0o077 == 0
    assert "name: " in out
    told = run(workspace.folder, "plan", "federation.yaml", "--max-loss-1", "1", fails=True)
    assert "Name a feature holder with --party. They are shop, bank." in told


def test_leakage_stays_at_home(workspace: Workspace) -> None:
    before = workspace.files("exchange")
    told = printed_json("leakage", "federation.yaml", "--party", "bank", folder=workspace.folder)
    home = workspace.folder / "bank" / "home" / "credit_scoring"
    for name in ("leakage.json", "leakage.html"):
        assert (home / name).stat().st_mode & 0o077 == 0
    assert workspace.files("exchange") == before
    assert set(told["columns"]) == set(workspace.declared.parties["bank"].features)
    for curves in told["averaging"].values():
        # Thirty retrainings of pinned responses tell exactly what one tells.
        assert len(curves["pinned"]) == 30
        assert len(set(curves["pinned"])) == 1
        assert curves["fresh"][-1] > curves["fresh"][0]
    worst = told["worst"]["gain"]
    assert worst == max(a["gain"] for tried in told["columns"].values() for a in tried)
    told_by_gate = run(
        workspace.folder, "leakage", "federation.yaml", "--party", "bank",
        "--gate", str(worst - 0.01), fails=True,
    )  # fmt: skip
    assert "above the gate" in told_by_gate


def test_edges_of_a_sample_hold_equal_shares(tmp_path: Path) -> None:
    values = np.random.default_rng(0).lognormal(size=4000)
    pl.DataFrame({"income": values}).write_parquet(tmp_path / "sample.parquet")
    told = printed_json(
        "edges", "sample.parquet", "--column", "income", "--cells", "8", folder=tmp_path
    )
    edges = told["scale"]["edges"]
    counts = np.bincount(np.searchsorted(edges, values, side="left"))
    assert len(counts) == 8
    assert counts.min() >= 498
    assert counts.max() <= 502
    # A value that fills several cells has one of its own.
    pl.DataFrame({"late": [0] * 950 + [1] * 30 + [2] * 20}).write_parquet(tmp_path / "ties.parquet")
    out = run(tmp_path, "edges", "ties.parquet", "--column", "late")
    assert yaml.safe_load(out) == {"scale": {"edges": [0.0]}}
