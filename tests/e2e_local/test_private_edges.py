"""Private edges at a party: drawn once, charged, pinned, and known to its ledger."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.config.loading import load_offer, load_policy, load_site
from opboost_ops.errors import BudgetError, ConfigError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.extras.setup.federation_file import write_private_edges
from opboost_ops.pipeline.party.recovery import recover
from opboost_ops.pipeline.party.rollback import check
from opboost_ops.reports.ledger import ledger_of, remaining_releases
from tests.commands import printed, printed_json
from tests.federation import Workspace
from tests.party_state import state_of

DRAW = ["edges", "bank", "--federation", "federation.yaml", "--column", "income", "--private", "2"]


def draw(workspace: Workspace) -> dict[str, Any]:
    return dict(printed_json(*DRAW, folder=workspace.folder)["columns"]["income"])


def consent(workspace: Workspace) -> dict[str, Any]:
    return dict(printed_json("agree", "bank", "federation.yaml", folder=workspace.folder)["sheet"])


def spent(workspace: Workspace) -> tuple[float, int]:
    """What the column has cost, and how many draws of edges there are."""
    with state_of(workspace, "bank") as state:
        loss = state.releases.spent().get("income", 0)
        draws = [release for release in state.releases.all() if release.kind == "edges"]
    return float(loss), len(draws)


def test_a_draw_is_charged_once(fresh: Workspace) -> None:
    first = draw(fresh)
    assert first["charged"]
    assert 1.99 < first["loss"] <= 2
    declared = fresh.declared.parties["bank"].features["income"].private_edges
    assert declared is not None
    assert (list(declared.edges), declared.epsilon) == (first["scale"]["edges"], 2)
    assert len(declared.edges) == 9
    again = draw(fresh)
    assert again["scale"] == first["scale"]
    assert not again["charged"]
    assert spent(fresh) == (pytest.approx(first["loss"]), 1)


@pytest.mark.slow
def test_a_run_releases_by_private_edges_and_draws_none(fresh: Workspace) -> None:
    loss = draw(fresh)["loss"]
    fresh.agree()
    fresh.all()
    step, entries = spent(fresh)
    assert entries == 1
    assert step > loss + 0.01


def test_losses_are_shown_by_steps_and_in_raw_units(fresh: Workspace) -> None:
    lines = {line["cells"]: line for line in draw(fresh)["compared"]}
    assert set(lines) == {"linear", "log1p", "private edges"}
    # At one loss of a step, cells that are narrow somewhere lose more at a raw distance.
    assert len({round(line["loss_1"], 4) for line in lines.values()}) == 1
    assert lines["private edges"]["narrowest"] < lines["linear"]["narrowest"]
    assert lines["private edges"]["loss_near"] > lines["linear"]["loss_near"]
    assert "at no cost" in printed(*DRAW, folder=fresh.folder)


def test_the_policy_refuses_before_anything_is_drawn(fresh: Workspace) -> None:
    file = fresh.file.read_bytes()
    fresh.declare("bank/policy.yaml", features={"income": {"budget": 0.05}})
    assert "features.income.budget" in printed(*DRAW, folder=fresh.folder, fails=True)
    assert fresh.file.read_bytes() == file
    assert spent(fresh) == (0.0, 0)


def test_edges_that_the_ledger_does_not_know_are_refused(fresh: Workspace) -> None:
    draw(fresh)

    def edit(data: dict[str, Any]) -> None:
        edges = data["parties"]["bank"]["features"]["income"]["scale"]["edges"]
        edges[0] = round(edges[0] * 0.99, 2)

    fresh.edit_yaml("federation.yaml", edit, agree=False)
    with pytest.raises(BudgetError, match="has not charged the private edges of income"):
        fresh.agree()


def test_a_rolled_back_draw_is_found_and_charged_again(fresh: Workspace) -> None:
    draw(fresh)
    fresh.agree()
    site = fresh.site("bank")
    with state_of(fresh, "bank") as state, state.database.writing() as connection:
        for table in ("entries", "column_releases"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    assert any("edges of income" in gap.missing for gap in check(site))
    assert "has not charged the private edges" in str(fresh.first_failure()[1])
    policy = fresh.folder / "bank" / "policy.yaml"
    recover(site, load_policy(policy))
    assert spent(fresh) == (pytest.approx(2, abs=0.01), 1)
    assert not any("edges of income" in gap.missing for gap in check(site))
    recover(site, load_policy(policy))
    assert spent(fresh)[1] == 1


def test_only_numbers_that_a_feature_holder_releases_take_edges(fresh: Workspace) -> None:
    for party, column in (("credit", "age"), ("bank", "nothing")):
        with pytest.raises(ConfigError, match="releases no column"):
            write_private_edges(fresh.folder / party, 0.1, {column: 4}, fresh.file)


def test_a_number_between_0_and_1_takes_edges_like_any_other(fresh: Workspace) -> None:
    def shares(data: dict[str, Any]) -> None:
        data["parties"]["bank"]["features"]["income"]["bounds"] = [0, 1]

    fresh.edit_yaml("federation.yaml", shares, agree=False)
    drawn = write_private_edges(fresh.folder / "bank", 2, None, fresh.file).columns
    assert "income" in drawn and all(0 <= edge <= 1 for edge in drawn["income"].scale["edges"])


def test_the_consent_sheet_lists_the_edges_with_their_epsilon(fresh: Workspace) -> None:
    before = consent(fresh)
    cost = draw(fresh)["loss"]
    sheet = consent(fresh)
    assert any("epsilon 2 " in one["discloses"] for one in sheet["exact"])
    assert sheet["totals"]["loss_1"] == pytest.approx(before["totals"]["loss_1"] + cost)
    (income,) = [line for line in sheet["columns"] if line["column"] == "income"]
    (earlier,) = [line for line in before["columns"] if line["column"] == "income"]
    odds = earlier["guess"]["odds"] * math.exp(cost)
    assert income["guess"]["odds"] == pytest.approx(odds)


def test_edges_are_no_column_of_the_ledger_and_end_no_budget(fresh: Workspace) -> None:
    draw(fresh)
    site, policy = fresh.site("bank"), load_policy(fresh.folder / "bank" / "policy.yaml")
    view = ledger_of(site, policy)
    assert [(line.kind, line.feature) for line in view.lines] == [("edges", "income")]
    assert remaining_releases(view.lines).feature == ""
    assert "Releases left" not in printed("ledger", "show", fresh.folder / "bank")


def test_init_asks_for_edges_of_all_numbers_and_bounds_draws_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pl.DataFrame(
        {
            "id": range(2000),
            "income": rng.lognormal(8, 1, 2000),
            "debt": rng.normal(50, 20, 2000),
            "home": rng.choice(["own", "rent"], 2000),
        }
    ).write_parquet(tmp_path / "t.parquet")
    printed(
        "init", "--party", "bank", "--table", "t.parquet", "--id", "id", "--private-edges", "0.1",
        folder=tmp_path,
    )  # fmt: skip
    table = tmp_path / "bank" / "bounds.csv"
    lines = pl.read_csv(table, infer_schema=False)
    number = pl.col("scale") == "private 0.1"
    assert lines.filter(number).get_column("feature").to_list() == ["income", "debt"]
    # Of debt one bound is still blank at first: nothing is drawn of it.
    for bounded, fails in ((pl.col("feature") == "income", True), (number, False)):
        lines.with_columns(
            lower=pl.when(number).then(pl.lit("0")),
            upper=pl.when(bounded).then(pl.lit("100000")),
            categories=pl.when(~number).then(pl.lit("own|rent")),
        ).write_csv(table)
        shown = printed("bounds", "bank", folder=tmp_path, fails=fails)
        assert not fails or "debt" in shown
    offer = load_offer(tmp_path / "bank" / "bank-offer.yaml")
    edges = {name: feature.private_edges for name, feature in offer.features.items()}
    assert {name: len(found.edges) if found else 0 for name, found in edges.items()} == {
        "income": 9, "debt": 9, "home": 0,
    }  # fmt: skip
    site = load_site(tmp_path / "bank" / "site.yaml")
    policy = load_policy(tmp_path / "bank" / "policy.yaml")
    with open_state(site) as state:
        spent_on = state.releases.spent().values()
    assert [float(loss) for loss in spent_on] == [pytest.approx(0.1, abs=1e-3)] * 2
    # The policy that init wrote has room for them beside one release.
    rule = policy.features["income"]
    (tmp_path / "other").mkdir()
    printed(
        "init", "--party", "bank", "--table", str(tmp_path / "t.parquet"), "--id", "id",
        folder=tmp_path / "other",
    )  # fmt: skip
    lines.with_columns(
        scale=pl.when(number).then(pl.lit("linear")),
        lower=pl.when(number).then(pl.lit("0")),
        upper=pl.when(number).then(pl.lit("100000")),
        categories=pl.when(~number).then(pl.lit("own|rent")),
    ).write_csv(tmp_path / "other" / "bank" / "bounds.csv")
    printed("bounds", "bank", folder=tmp_path / "other")
    other = load_policy(tmp_path / "other" / "bank" / "policy.yaml")
    without = other.features["income"].budget
    assert without is not None
    assert rule.budget == pytest.approx(without + 0.1, abs=1e-3)


def test_the_budgets_that_init_wrote_for_edges_are_called_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    people = pl.DataFrame({"id": range(2000), "income": rng.lognormal(8, 1, 2000)})
    people.write_parquet(tmp_path / "bank.parquet")
    people.with_columns(label=pl.col("id") % 2).write_parquet(tmp_path / "lender.parquet")
    for party, more in (("bank", ["--private-edges", "0.1"]), ("lender", ["--label", "label"])):
        table = f"{party}.parquet"
        printed("init", "--party", party, "--table", table, "--id", "id", *more, folder=tmp_path)
    table_of_bounds = tmp_path / "bank" / "bounds.csv"
    pl.read_csv(table_of_bounds, infer_schema=False).with_columns(
        lower=pl.lit("0"), upper=pl.lit("100000")
    ).write_csv(table_of_bounds)
    printed("federate", "bank", "lender", folder=tmp_path)
    sheet = printed_json("agree", "bank", "federation.yaml", folder=tmp_path)["sheet"]
    budgets = [cap for cap in sheet["caps"] if cap["name"].endswith(".budget")]
    assert {cap["set_by"] for cap in budgets} == {"init"}


def test_a_draw_that_would_say_nothing_is_not_paid_for(fresh: Workspace) -> None:
    with pytest.raises(ConfigError, match="fewer cells"):
        write_private_edges(fresh.folder / "bank", 0.1, {"income": 10}, fresh.file)
    assert spent(fresh) == (0.0, 0)
