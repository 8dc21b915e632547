"""What protection costs, counted and timed."""

import json
from pathlib import Path

import pytest

from opboost_ops.lab import cost, cost_section, release_timing
from tests.unit.cli.conftest import Opboost, opboost  # noqa: F401


@pytest.mark.slow
def test_costs_of_a_small_run(tmp_path: Path, opboost: Opboost) -> None:  # noqa: F811
    summary = tmp_path / "cost.json"
    opboost("evaluate", "cost", "--quick", "--work", tmp_path, "--summary", summary)
    found = json.loads(summary.read_text())
    # pyope takes some 30,000 times as long; even a busy machine leaves a factor of a thousand.
    assert len(found["mechanisms"]) == len(release_timing.METHODS)
    assert all(line["times_pyope"] > 1000 for line in found["mechanisms"])
    assert [line["same_counts"] for line in found["naming"]] == [True] * 3
    (run,) = found["runs"]
    # Bank and shop release so many columns of ranks of at most ten values: half a byte at most.
    assert run["cells"] % run["rows"] == 0
    assert 0 < run["entropy_bytes"] < run["cells"] / 2
    assert run["entropy_bytes"] < run["release_bytes"]
    stages = {name: run[f"stage_{name}"] for name in cost_section.stage_names(run)}
    assert {"open_run", "desensitize", "train", "materialise", *cost.AFTER} <= set(stages)
    assert sum(stages.values()) == pytest.approx(run["all_seconds"], rel=1e-4)
    after = sum(stages[name] for name in cost.AFTER)
    assert run["all_seconds"] - run["model_seconds"] == pytest.approx(after, rel=1e-4)
    assert run["model_to_lightgbm"] == pytest.approx(
        run["model_seconds"] / run["lightgbm_seconds"], rel=1e-4
    )
    told = cost_section.section(found, tmp_path / "figures")
    assert f"{run['release_bytes']:,.0f}" in told
    assert "NOT the same" not in told
    assert (tmp_path / "figures" / "evaluation-cost.svg").is_file()
