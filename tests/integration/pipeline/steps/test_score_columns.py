"""Scores that people can use: probabilities, decisions, intervals and reasons, beside the score."""

import json
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.federation import Workspace
from tests.integration.pipeline.scoring_data import dataset, score_files, scoring

OPTIONS: dict[str, dict[str, Any]] = {
    "binary": {"calibration": "platt", "cost_ratio": 4.0, "reasons": 3},
    "multiclass": {"reasons": 2},
    "regression": {"interval": 0.9, "reasons": 99},
}


@pytest.fixture(
    scope="module",
    params=["binary", pytest.param("multiclass", marks=pytest.mark.slow), "regression"],
)
def scored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A version that was trained with all options, and everybody scored by it, mode routed."""
    options = OPTIONS[request.param] | {"reasons": min(OPTIONS[request.param]["reasons"], 50)}
    workspace = Workspace.write(
        tmp_path_factory.mktemp(request.param) / "federation",
        dataset(request.param),
        training={"trees": 8, "depth": 3},
        scoring={"mode": "routed", **options},
    )
    workspace.all()
    scoring(workspace, "routed", "0" * 15 + "b").all()
    return workspace


@pytest.fixture
def task(scored: Workspace) -> str:
    label = scored.declared.parties["a"].label
    assert label is not None
    return label.task


def kept(scored: Workspace) -> Any:
    found = json.loads((scored.version() / "scoring.json").read_bytes())
    assert set(found) == {"routed", "desensitised"}
    return found["routed"]


def scores(scored: Workspace) -> pl.DataFrame:
    (file,) = score_files(scored)
    return pl.read_parquet(file)


def test_reasons_add_up_to_the_raw_score(task: str, scored: Workspace) -> None:
    table = scores(scored)
    count = sum(name.endswith("_contribution") for name in table.columns)
    # Of fewer features than were asked for all are named.
    assert count == {"binary": 3, "multiclass": 2, "regression": 7}[task]
    parts = [f"reason_{i + 1}_contribution" for i in range(count)]
    total = table.select(pl.sum_horizontal(*parts, "reasons_base", "reasons_rest")).to_series()
    raw = table["raw_score"].to_numpy()
    assert np.allclose(total.to_numpy(), raw, rtol=0, atol=1e-9)
    sizes = table.select(pl.col(parts).abs()).to_numpy()
    assert (np.diff(sizes, axis=1) <= 1e-12).all()
    # Independently: the score that the raw score stands for is the one beside it.
    if task == "binary":
        assert np.allclose(1 / (1 + np.exp(-raw)), table["uncalibrated"].to_numpy(), atol=1e-9)
    if task == "regression":
        assert np.allclose(raw, table["score"].to_numpy(), atol=1e-6)
        assert np.allclose(table["reasons_rest"].to_numpy(), 0, atol=1e-9)
    named = set(zip(table["reason_1_party"], table["reason_1_feature"], strict=True))
    assert named <= {
        ("a", "x"), ("a", "kind"), ("b0", "w"), ("b0", "w=missing"), ("b0", "size"),
        ("b1", "v"), ("b1", "colour"),
    }  # fmt: skip
    assert any(party != "a" for party, _ in named)


def test_probabilities_of_all_classes(task: str, scored: Workspace) -> None:
    table = scores(scored)
    names = [name for name in table.columns if name.startswith("probability_")]
    classes = {"binary": ["no", "yes"], "multiclass": ["low", "middle", "high"]}.get(task, [])
    assert names == [f"probability_{name}" for name in classes]
    if names:
        assert np.allclose(table.select(pl.sum_horizontal(names)).to_numpy(), 1)
    if task == "binary":
        assert (table["score"] == table["probability_yes"]).all()
    if task == "multiclass":
        assert (table["score"] == table.select(pl.max_horizontal(names)).to_series()).all()
    (file,) = score_files(scored)
    facts = json.loads(pq.read_schema(file).metadata[b"opboost"])
    assert facts.get("positive") == ("yes" if task == "binary" else None)


def test_the_decision_is_at_the_versions_threshold(task: str, scored: Workspace) -> None:
    if task != "binary":
        assert "threshold" not in kept(scored)
        return
    table, threshold = scores(scored), kept(scored)["threshold"]
    assert threshold["value"] == 0.2
    assert 0 < threshold["confusion"]["share"] < 1
    expected = (table["score"] > threshold["value"]).to_list()
    assert [value == "yes" for value in table["class"]] == expected
    figures = kept(scored)["calibration"]["figures"]
    assert set(figures) == {"before", "after"}
    # Calibration keeps the order of people.
    order = table.sort("uncalibrated")["score"].to_numpy()
    assert (np.diff(order) >= 0).all()


def test_a_number_has_its_interval(task: str, scored: Workspace) -> None:
    if task != "regression":
        assert "interval" not in kept(scored)
        return
    table, half = scores(scored), kept(scored)["interval"]["half_width"]
    assert np.allclose((table["high"] - table["low"]).to_numpy(), 2 * half)
    assert np.allclose(table["score"].to_numpy(), (table["high"] + table["low"]).to_numpy() / 2)
