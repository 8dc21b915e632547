"""Nights under a cap: the account ends, cells freeze, and models are measured on both."""

from pathlib import Path

import pytest

from opboost_ops.lab.year import year
from tests.federation import small_credit


@pytest.mark.slow
def test_the_account_ends_and_cells_freeze(tmp_path: Path) -> None:
    nights = 6
    found = year(small_credit(rows=600), tmp_path / "year", nights, 2)
    lines = found["nights"]
    one = lines[0]["loss_whole"]
    assert [line["loss_whole"] / one for line in lines] == pytest.approx([1, 2, 2, 2, 2, 2])
    assert lines[-1]["loss_whole"] <= found["budget_whole"]
    assert [line["retrainings_left"] for line in lines] == [None] * nights
    capped = [line["capped_cells"] for line in lines]
    assert capped == sorted(capped)
    assert capped[0] == 0 < capped[-1]
    for line in lines:
        assert line["people_loss_whole"] <= line["loss_whole"] + 1e-9
        of = {f"{name}{alone}" for name in ("frozen", "unfrozen") for alone in ("", "_alone")}
        assert set(line["auc"]) == of
    # Before a cell has changed twice, the values that go are those of the day.
    assert lines[1]["auc"]["frozen"] == lines[1]["auc"]["unfrozen"]
    assert max(shares["held"] for shares in lines[-1]["held"].values()) > 0
