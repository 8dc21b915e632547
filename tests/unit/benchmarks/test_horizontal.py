"""The experiment about horizontal FederBoost measures what it says."""

import argparse

import numpy as np
import pytest

from benchmarks.horizontal_rounds import measured
from benchmarks.papers import horizontal


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


def test_parties_as_processes_are_timed() -> None:
    shape = {"parties": 3, "rows": 600, "trees": 2, "layers": 2}
    found = measured(argparse.Namespace(**shape))
    assert min(found["wall"], found["active"], found["each_other"], found["lightgbm"]) > 0
    # Keys, facts, at most 16 rounds of lookup, two levels of two trees; of each party.
    assert 3 * 7 <= found["messages"] <= 3 * 23
