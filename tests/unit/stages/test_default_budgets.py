"""The default budget covers unlimited retraining under one declaration, and not a second one."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops.errors import BudgetError
from opboost_ops.privacy.missing_caps import missing_caps
from tests.federation import Workspace, small_credit


@pytest.mark.slow
def test_nights_without_end_fit_and_a_second_declaration_does_not(tmp_path: Path) -> None:
    nights = Workspace.write(tmp_path / "nights", small_credit(rows=200), capped=True)
    for party in ("bank", "shop"):
        assert missing_caps(nights.policy(party)) == []
    for night in range(1, 5):
        run = Workspace(nights.folder, f"{night:016d}")
        for party in ("bank", "shop"):
            # Everybody has another value in every column.
            run.edit_table(party, lambda t: t.with_columns(pl.exclude(t.columns[0]).shift(7).fill_null(strategy="backward")))  # fmt: skip  # noqa: E501
        run.all()
        run.scoring(f"{night + 100:016d}").all()

    def widen(data: Any) -> None:
        data["parties"]["bank"]["features"]["income"]["bounds"][1] *= 1.001

    again = Workspace(nights.folder, "f" * 16)
    again.edit_yaml("federation.yaml", widen)
    where, error = again.first_failure()
    assert where.startswith("bank.")
    assert isinstance(error, BudgetError)
    assert "features.income.budget_whole" in str(error)
    assert "ranks/bank" not in again.published()
