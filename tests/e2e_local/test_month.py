"""Nightly retraining: charged outside by night, frozen inside without a sign outside."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.columns import columns_of
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.budgets import forecast
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.people import people
from tests.federation import Workspace, small_credit
from tests.party_state import context_of, state_of

#: Nights; for how many of them budgets are enough; the one in which a map is declared again.
NIGHTS, FITTING, NEW_MAP = 6, 4, 4

#: How many different values of one cell the policy lets go, where it has a cap.
MOST_CHANGES = 2

#: Who is watched, and its feature.
PARTY, FEATURE = "shop", "orders_a_year"


def month(folder: Path, most: int | None = None) -> list[dict[str, Any]]:
    """Retrain every night while a fiftieth of the rows change, until the public budget refuses.

    Args:
        folder: Where the federation lives.
        most: How many different values of one cell the policy lets go; no cap when absent.
    """
    workspace = Workspace.write(folder, small_credit(), training={"trees": 2, "depth": 2})
    columns = columns_of(workspace.declared, PARTY)
    feature_of = {column.charge: column.feature for column in columns}
    costs: dict[str, float] = {}
    for charge, curve in column_losses(columns).items():
        name = feature_of[charge]
        costs[name] = costs.get(name, 0.0) + float(curve.loss[-1]) * FITTING
    # A little more than what fits: budgets are compared exactly, products of floats are not.
    rules = {name: {"budget_whole": cost * (1 + 1e-9)} for name, cost in costs.items()}
    caps = {} if most is None else {"max_changes": most}
    workspace.declare(
        f"{PARTY}/policy.yaml", features={name: rule | caps for name, rule in rules.items()}
    )
    lower, upper = workspace.declared.parties[PARTY].features[FEATURE].bounds or (0, 0)
    wider = {FEATURE: {"bounds": [lower, upper + (upper - lower) / 10]}}
    found = []
    for night in range(1, NIGHTS + 1):
        run = Workspace(folder, f"{night:016x}")
        if night > 1:
            run.edit_table(PARTY, lambda t, n=night: changed(t, n, list(costs)))
        if night == NEW_MAP:
            run.declare("federation.yaml", parties={PARTY: {"features": wider}})
        refused = ""
        try:
            run.until("seal", PARTY)
            run.step(PARTY, "seal")
        except BudgetError as error:
            refused = error.problem
        found.append({"refused": refused, **cost(run)})
    return found


def changed(table: pl.DataFrame, seed: int, features: list[str]) -> pl.DataFrame:
    """Some rows have the values of others."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(table.height)[: table.height // 50].tolist()
    donors = rng.integers(0, table.height, len(chosen)).tolist()
    return table.with_columns(
        table[name].clone().scatter(chosen, table[name][donors]) for name in features
    )


def cost(run: Workspace) -> dict[str, Any]:
    """What a night has cost outside and done inside."""
    context = context_of(run, PARTY)
    uuid = context.federation.parties[PARTY].features[FEATURE].uuid
    with state_of(run, PARTY) as state:
        releases = state.ledger.releases()
        inside = people(releases, state.cells)
        states = [state.cells.load(*place) for place in state.cells.generations()
                  if place[0] == uuid]  # fmt: skip
        changes = [kept.changes() for kept in states if kept is not None]
    account = accounts(releases)[uuid]
    place = run.folder / "exchange" / "credit_scoring" / run.run / "ranks" / PARTY
    return {
        "releases": account.releases,
        "loss_whole": float(account.whole),
        "retrainings_left": forecast(account, context.policy.features[FEATURE]).retrainings,
        "people_loss_whole": float(sum(c.whole for c in inside.columns if c.feature == FEATURE)),
        "capped_cells": sum(int((each >= MOST_CHANGES).sum()) for each in changes),
        "files": {path.name: path.stat().st_size for path in sorted(place.glob("*"))},
    }


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return month(tmp_path_factory.mktemp("month") / "federation")


@pytest.fixture(scope="module")
def capped(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return month(tmp_path_factory.mktemp("capped") / "federation", MOST_CHANGES)


def test_under_a_cap_the_account_stays_where_it_is(capped: list[dict[str, Any]]) -> None:
    """Two values under the first map, two under the new one of night 4: no budget refuses."""
    one = capped[0]["loss_whole"]
    charged = [line["loss_whole"] / one for line in capped]
    assert charged == pytest.approx([1, 2, 2, 3, 4, 4])
    assert not any(line["refused"] for line in capped)


def test_every_changed_night_is_charged_outside(nights: list[dict[str, Any]]) -> None:
    one = nights[0]["loss_whole"]
    for i, line in enumerate(nights[:FITTING], start=1):
        assert line["refused"] == ""
        assert line["releases"] == i
        assert line["loss_whole"] == pytest.approx(i * one)
        assert line["retrainings_left"] == FITTING - i


def test_the_public_cap_refuses_and_nothing_more_is_charged(nights: list[dict[str, Any]]) -> None:
    last = nights[FITTING - 1]
    for line in nights[FITTING:]:
        assert "budget_whole" in line["refused"]
        assert line["files"] == {}
        assert line["releases"] == last["releases"]
        assert line["capped_cells"] == last["capped_cells"]


def test_frozen_cells_give_no_sign_outside(capped: list[dict[str, Any]]) -> None:
    """The artifact has the same files; only compressed sizes move by what any noise moves them."""
    assert capped[0]["capped_cells"] == 0
    assert capped[-1]["capped_cells"] > 0
    assert len({tuple(line["files"]) for line in capped}) == 1
    for name in capped[0]["files"]:
        sizes = [line["files"][name] for line in capped]
        assert max(sizes) - min(sizes) <= 60, name


def test_the_person_charged_most_is_charged_less_than_the_worst_case(
    capped: list[dict[str, Any]],
) -> None:
    one = capped[0]["loss_whole"]
    for line in capped:
        assert line["people_loss_whole"] <= line["loss_whole"] + 1e-9
        # Two noise keys, before and after the new map; under each at most so many values.
        assert line["people_loss_whole"] <= 2 * MOST_CHANGES * one + 1e-9
