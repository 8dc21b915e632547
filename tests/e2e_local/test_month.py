"""Nightly retraining while values change: charged once, and the same responses every night."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.errors import BudgetError
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.pipeline.home import Home
from opboost_ops.pipeline.party import clock
from tests.commands import printed_json
from tests.federation import Workspace, small_credit
from tests.party_state import entries_of, state_of

#: Who is watched, and its feature.
PARTY, FEATURE = "shop", "orders_a_year"


@pytest.fixture
def fresh(tmp_path: Path) -> Workspace:
    training = {"trees": 2, "depth": 2}
    return Workspace.write(tmp_path / "federation", small_credit(rows=150), training=training)


def sent(run: Workspace) -> list[int]:
    """The responses of a night, up to their seal."""
    run.until("seal", PARTY)
    run.step(PARTY, "seal")
    return narrow_integers(Home(run.home(PARTY)).table("randomised"), FEATURE).tolist()


def night(workspace: Workspace, number: int) -> Workspace:
    return Workspace(workspace.folder, f"{number:016x}")


def changed(table: pl.DataFrame, seed: int) -> pl.DataFrame:
    """A tenth of the rows have the values of others."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(table.height)[: table.height // 10].tolist()
    donors = rng.integers(0, table.height, len(chosen)).tolist()
    names = [name for name in table.columns if name != "id"]
    return table.with_columns(
        table[name].clone().scatter(chosen, table[name][donors]) for name in names
    )


def line_of(workspace: Workspace) -> dict[str, Any]:
    columns = printed_json("ledger", "show", workspace.folder / PARTY)["columns"]
    return next(line for line in columns if line["feature"] == FEATURE)


def test_nights_of_changed_values_send_the_same_and_cost_nothing(fresh: Workspace) -> None:
    first = sent(night(fresh, 1))
    spent = line_of(fresh)
    for number in range(2, 6):
        run = night(fresh, number)
        run.edit_table(PARTY, lambda t, n=number: changed(t, n))
        assert sent(run) == first
    assert line_of(fresh) == spent
    assert spent["spent"] == spent["loss"]
    assert len(spent["releases"]) == 1


@pytest.mark.parametrize("what", ["broken", "missing", "drifted"])
def test_a_value_of_a_pinned_person_stops_and_changes_nothing(fresh: Workspace, what: str) -> None:
    first = sent(night(fresh, 1))
    entries = len(entries_of(fresh, PARTY))
    change = {
        "broken": pl.col(FEATURE) * 1e9,
        "missing": pl.lit(None, pl.Float64).alias(FEATURE),
        "drifted": (pl.col(FEATURE) * 0).alias(FEATURE),
    }[what]
    run = night(fresh, 2)
    run.edit_table(PARTY, lambda t: t.with_columns(change))
    assert sent(run) == first
    told = [e.kind for e in entries_of(fresh, PARTY)[entries:]]
    # As in a night on an unchanged table: no release, and no entry more or less.
    assert "release" not in told
    unchanged = night(fresh, 3)
    sent(unchanged)
    assert [e.kind for e in entries_of(fresh, PARTY)[entries + len(told) :]] == told


def test_a_new_map_is_a_new_release_that_a_full_budget_refuses(fresh: Workspace) -> None:
    sent(night(fresh, 1))
    budget = line_of(fresh)["loss"] * 2 * (1 + 1e-9)
    fresh.declare(f"{PARTY}/policy.yaml", features={FEATURE: {"budget": budget}})
    lower, upper = fresh.declared.parties[PARTY].features[FEATURE].bounds or (0, 0)
    for number, wider in ((2, 1.1), (3, 1.2)):
        run = night(fresh, number)
        bounds = {FEATURE: {"bounds": [lower, upper * wider]}}
        run.declare("federation.yaml", parties={PARTY: {"features": bounds}})
        if number == 2:
            sent(run)
            continue
        step, error = run.first_failure()
        assert step.startswith(PARTY)
        assert isinstance(error, BudgetError)
        assert f"features.{FEATURE}.budget" in str(error)
    assert len(line_of(fresh)["releases"]) == 2


def test_a_year_later_a_yearly_column_is_released_anew(
    fresh: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    yearly = {FEATURE: {"refresh": "yearly"}}
    fresh.declare("federation.yaml", parties={PARTY: {"features": yearly}})
    first = sent(night(fresh, 1))
    fresh.edit_table(PARTY, lambda t: t.with_columns(pl.col(FEATURE).reverse()))
    today = clock.today()
    with state_of(fresh, PARTY) as state, state.database.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE column_releases SET opened = ?", (date(today.year - 1, 6, 1).isoformat(),)
        )
    second = sent(night(fresh, 2))
    assert second != first
    spent = line_of(fresh)
    assert spent["spent"] == pytest.approx(2 * spent["loss"])
    assert spent["since"] == today.isoformat()
