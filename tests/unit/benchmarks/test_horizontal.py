"""The experiment about horizontal FederBoost measures what it says."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import horizontal
from opboost_ops.boosting import federboost, quantiles
from opboost_ops.boosting.federboost import Settings
from opboost_ops.boosting.objectives import Objective
from opboost_ops.boosting.rounds import Alone


def made_up(rows: int = 3000) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    columns = [random.integers(1, 65_537, rows), random.integers(1, 4, rows)]
    chance = 0.2 + 0.6 * (columns[0] > 30_000) * (columns[1] > 1)
    return columns, (random.random(rows) < chance).astype(int), np.column_stack(columns)


def test_it_is_as_good_as_lightgbm_on_the_same_bins_and_better_than_guessing() -> None:
    columns, label, raw = made_up()
    found = horizontal.compared(columns, label, raw, seed=1)
    # The mean over splits is held to 0.2; here is one small split.
    assert abs(found["difference"]) < 0.5
    assert found["horizontal"] > 75 and abs(found["own_bins"] - found["same_bins"]) < 3
    other = horizontal.compared(columns, label, raw, seed=2)
    assert other["horizontal"] != found["horizontal"]
    assert horizontal.compared(columns, label, raw, seed=1) == found
    # A label that is nobody's business cannot be learnt.
    nothing = np.random.default_rng(1).integers(0, 2, len(label))
    assert horizontal.compared(columns, nothing, raw, seed=1)["horizontal"] == pytest.approx(
        50, abs=5
    )


def test_scores_are_sums_of_leaves() -> None:
    columns, label, _ = made_up(500)
    settings = Settings(Objective("binary", 2), (horizontal.DOMAIN,) * 2, 3, 4, horizontal.GROWTH)
    ensemble = federboost.learn(columns, label, settings, Alone())
    found = horizontal.scores(ensemble, quantiles.bins_of(columns, ensemble.edges))
    assert len(np.unique(found)) > 3
    start, (first, *_) = ensemble.facts.initial[0], ensemble.trees[0]
    leaves = [l.value for n, l in enumerate(first.leaves) if n not in first.splits]  # noqa: E741
    alone = federboost.Ensemble(ensemble.facts, ensemble.edges, ensemble.trees[:1])
    one = horizontal.scores(alone, quantiles.bins_of(columns, ensemble.edges))
    assert set(np.unique(one)) == {start + leaf for leaf in leaves}


def test_parties_as_processes_are_timed_and_the_section_tells(tmp_path: Path) -> None:
    lines = horizontal.times((3, 4), trees=2, layers=2, rows=300, columns=4)
    assert [line["parties"] for line in lines] == [3, 4]
    for line in lines:
        assert line["seconds"] > 0 and line["cpu_active"] > 0 and line["lightgbm"] > 0
        # Keys, facts, at most 16 rounds of lookup, two levels of two trees; of each party.
        assert line["parties"] * 7 <= line["messages"] <= line["parties"] * 22
    row = {"dataset": "credit_default", "missing": "none", "learning_rate": 0.3, "seeds": 5}
    row |= dict.fromkeys(("horizontal", "same_bins", "own_bins", "difference"), 77.1)
    row |= {f"{n}_sd": 0.1 for n in ("horizontal", "same_bins", "own_bins", "difference")}
    found = {
        "trees": 20, "layers": 3, "buckets": 16, "penalty": 1.0, "load": 1,
        "rows": [row], "paper": horizontal.PAPER, "times": lines[:1], "growth": lines,
    }  # fmt: skip
    text = horizontal.section(found, tmp_path)
    assert "77.100 ± 0.100" in text and "78.25" in text and "78.04" in text
    assert "figures/evaluation-horizontal.svg" in text
    assert (tmp_path / "evaluation-horizontal.svg").stat().st_size > 5000
