"""The study of denoising, on a made-up table."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.papers import denoise, two_parties
from opboost_ops.extras.datasets.dataset import ID, Dataset
from tests.unit.benchmarks.conftest import Quick


def made_up(own: bool) -> Dataset:
    """A number that four columns decide, which go together; with or without an own column."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=900)
    columns = {f"x{i}": hidden + rng.normal(scale=0.3, size=900) for i in range(4)}
    label = sum(columns.values()) + rng.normal(scale=0.1, size=900)
    ids = pl.Series(ID, [f"p{i}" for i in range(900)])
    mine = pl.DataFrame([ids]).with_columns(y=pl.Series(label))
    features = {name: {"bounds": [-4, 4]} for name in columns}
    owned = {}
    if own:
        mine = mine.with_columns(a=pl.Series(label + rng.normal(size=900)))
        owned = {"a": {"bounds": [-20, 20]}}
    others = {name: pl.Series(values) for name, values in columns.items()}
    return Dataset(
        name="made_up",
        task="regression",
        label_holder="a",
        label={"column": "y", "task": "regression"},
        holdout=0.2,
        domain=(1, 10),
        epsilon=1.0,
        tables={"a": mine, "b": pl.DataFrame([ids]).with_columns(**others)},
        features={"a": owned, "b": features},
    )


@pytest.mark.parametrize("own", [False, True])
def test_a_quick_study(
    own: bool, quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denoise, "load", lambda _: made_up(own))
    monkeypatch.setattr(two_parties, "TREES", 15)
    for cached in (denoise._prepared, denoise._ends, denoise._task):
        cached.cache_clear()
    found, text = quick("denoise")
    plain, geometric = found["rows"]
    assert (plain["mechanism"], geometric["mechanism"]) == ("global_map", "geometric")
    assert geometric["loss_1"] == pytest.approx(plain["loss_1"], rel=1e-5)
    assert geometric["loss_whole"] > plain["loss_whole"]
    for row in found["rows"]:
        assert row["own"] == own
        assert row["centralised"] > row["plain_desensitised"]
        # With an own column there is less to gain, and `auto` keeps to the plain one.
        assert own or row["centralised"] > row["joint"] > row["plain_desensitised"]
        assert row["joint_gain"] == pytest.approx(row["joint"] - row["plain"], abs=2e-6)
        assert row["auto"] == (row["plain"] if own else row["joint"])
        assert row["auto_half"] is None
    assert not own or plain["alone"] > 0.5
    # A single seed proves no harm.
    assert set(found["harmed"]) == {"joint plain", "auto plain", "auto alone"}
    assert not any(found["harmed"].values())
    assert "against the label holder alone in 0 of 2" in text
    least = min(found["rows"], key=lambda row: row["auto"] - row["plain"])
    assert f"{least['auto']:.4f}, plain {least['plain']:.4f}" in denoise.worst(found)
    assert (tmp_path / "evaluation-denoise.svg").is_file()
    assert f"| {plain['plain']:.4f} | {plain['joint']:.4f} |" in text
    for cached in (denoise._prepared, denoise._ends, denoise._task):
        cached.cache_clear()
