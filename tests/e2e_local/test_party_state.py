"""`opboost ledger` and `forget`: what the state says, and a person who is removed from it."""

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.errors import BudgetError
from tests.bad_input.faults import untouched
from tests.commands import printed
from tests.federation import Workspace
from tests.party_state import releases_of, state_of


def shown(workspace: Workspace, party: str = "bank", *more: str) -> Any:
    return json.loads(printed("ledger", "show", workspace.folder / party, "--json", *more))


def test_the_ledger_tells_releases_losses_and_what_is_exact(trained_once: Workspace) -> None:
    told = shown(trained_once, "shop", "--people")
    features = trained_once.declared.parties["shop"].features
    assert {line["feature"] for line in told["columns"]} == set(features)
    for line in told["columns"]:
        assert line["releases"] == 1
        assert line["budget_whole"] is line["retrainings_left"] is None
        assert line["loss_whole"] > 0
    assert {line["kind"] for line in told["exact"]} >= {"psi_answer", "shares", "split_values"}
    wholes = [line["loss_whole"] for line in told["columns"]]
    assert told["person"]["loss_whole"] == pytest.approx(sum(wholes))
    assert told["element"]["loss_whole"] == max(wholes)
    inside = told["people"]
    assert {line["most_changes"] for line in inside["columns"]} == {1}
    whole = sum(line["loss_whole"] for line in told["columns"])
    # One value of every cell was released: the person charged most is charged the worst case.
    assert inside["loss_whole"] == pytest.approx(whole)
    told = printed("ledger", "show", trained_once.folder / "shop", "--people")
    assert "What each feature has cost" in told
    assert "keep it at home" in told
    assert "Disclosed exactly" in told


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_the_ledger_is_exported_whole(trained_once: Workspace, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"ledger.{suffix}"
    printed("ledger", "export", trained_once.folder / "bank", "--out", out)
    lines = releases_of(trained_once, "bank")
    found = json.loads(out.read_text()) if suffix == "json" else list(csv.DictReader(out.open()))
    assert [line["artifact"] for line in found] == [line.artifact for line in lines]
    assert [line["feature"] or None for line in found] == [line.feature for line in lines]


def test_check_finds_what_was_reserved_and_not_completed(workspace: Workspace) -> None:
    assert "head" in printed("ledger", "check", workspace.folder / "bank")
    with state_of(workspace, "bank") as state:
        line = state.ledger.releases()[0]
        state.ledger.reserve([line.model_copy(update={"artifact": "f" * 64})])
    told = printed("ledger", "check", workspace.folder / "bank", fails=True)
    assert "1 entries are charged" in told


def bytes_of_shares(workspace: Workspace) -> list[bytes]:
    """The bytes of the bank's shares, without the manifest, which says who signed and when."""
    shares = workspace.artifact("shares", "bank")
    return [shares.part(n, 16).tobytes() for n in range(shares.parts)]


def test_a_budget_refuses_before_any_value_is_published(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = next(c for c in shown(workspace)["columns"] if c["feature"] == "income")
    budget = {"income": {"budget_whole": spent["loss_whole"] * 1.5}}
    workspace.declare("bank/policy.yaml", features=budget)
    assert {c["feature"]: c["retrainings_left"] for c in shown(workspace)["columns"]}["income"] == 0
    workspace.edit_table("bank", lambda t: t.with_columns(t["income"].reverse()))
    before = untouched(workspace)
    other = workspace.copy(tmp_path / "other", workspace.run)
    step, error = workspace.first_failure()
    assert step == "bank.desensitize"
    assert type(error) is BudgetError
    assert "features.income.budget_whole" in str(error)
    # Shares are of IDs alone: they are out before, and nothing else of the bank is.
    sent = {place for place in workspace.published() if place.endswith("/bank")}
    assert sent - {"psi_query/bank"} == {"shares/bank"}
    lines = [line for line in releases_of(workspace, "bank") if line.run == workspace.run]
    assert "shares" in {line.kind for line in lines}
    assert {line.account for line in lines} == {"exact"}
    assert all(line.loss is None and line.feature is None for line in lines)
    # Other values of the same people make the same shares.
    assert untouched(workspace) == before
    shares = bytes_of_shares(workspace)
    other.known_to(monkeypatch)
    other.edit_table("bank", lambda t: t.with_columns(t["income"].shuffle(1), t["balance"] * 0.5))
    assert other.first_failure()[0] == "bank.desensitize"
    assert bytes_of_shares(other) == shares
    workspace.known_to(monkeypatch)
    again = next(c for c in shown(workspace)["columns"] if c["feature"] == "income")
    assert again["loss_whole"] == spent["loss_whole"]


def test_a_forgotten_person_leaves_cells_and_next_releases(workspace: Workspace) -> None:
    tables = [pl.read_parquet(workspace.table_path(p)) for p in ("credit", "shop", "bank")]
    common = set(tables[0]["id"]) & set(tables[1]["id"]) & set(tables[2]["id"])
    person = sorted(common)[0]
    people = shown(workspace, "bank", "--people")["people"]["columns"][0]["people"]
    receipt = workspace.folder / "receipt.json"
    told = printed(
        "forget", workspace.folder / "bank", "-", "--receipt", receipt, stdin=f"{person}\n"
    )
    assert "forgot the person" in told
    kept = json.loads(receipt.read_text())
    assert kept["cell_states_removed"] > 0 and kept["artifacts_that_cannot_be_recalled"]["credit"]
    assert kept["still_in_the_tables_of"] == ["credit_scoring"]
    assert person not in receipt.read_text()
    with state_of(workspace, "bank") as state:
        assert (kept["audit_entry"], kept["audit_head"]) == state.audit.verify()
    again = printed("forget", workspace.folder / "bank", person, "--receipt", receipt, fails=True)
    assert "Nobody was forgotten yet" in again
    assert "Cannot be recalled" in told
    assert "credit" in told
    assert person not in told
    assert shown(workspace, "bank", "--people")["people"]["columns"][0]["people"] == people - 1
    summaries = workspace.all()
    rows = summaries["credit.open_rows"]
    assert rows["train"] + rows["holdout"] == len(common) - 1
    assert shown(workspace, "bank", "--people")["people"]["columns"][0]["people"] == people - 1
    for path in (workspace.folder / "bank" / "cells").iterdir():
        assert person.encode() not in path.read_bytes()
    printed("forget", workspace.folder / "bank", "no number", "--integer", fails=True)


def test_local_map_needs_its_disclosure_spelt_out(workspace: Workspace) -> None:
    def allow(width: float | None) -> None:
        path = workspace.folder / "bank" / "policy.yaml"
        policy = yaml.safe_load(path.read_text())
        rule = {"mechanisms": ["local_map"], "least_cell_width": width}
        uuid = policy["features"]["debt_ratio"]["uuid"]
        allowed = {k: v for k, v in rule.items() if v is not None}
        policy["features"]["debt_ratio"] = {"uuid": uuid, **allowed}
        path.write_text(yaml.safe_dump(policy))

    local = {"mechanism": {"name": "local_map", "epsilon": 1, "theta": 4}}
    workspace.declare("federation.yaml", parties={"bank": {"features": {"debt_ratio": local}}})
    allow(None)
    step, error = workspace.first_failure()
    assert (step, "least_cell_width" in str(error)) == ("bank.check_table", False)
    assert "features.debt_ratio.least_cell_width" in workspace.reason("bank")
    # Bounds [0, 1] on [1, 10]: partitions begin at 1, 5 and 9, so cells are 3/9, 4/9 and 2/9 wide.
    allow(0.5)
    step, error = workspace.first_failure()
    assert step == "bank.check_table"
    assert "would leave a cell of 0.222" in str(error)
    # A policy that changes on the way is asked again before anything leaves.
    allow(0.2)
    workspace.until("seal", "bank")
    allow(0.5)
    with pytest.raises(BudgetError, match=r"would leave a cell of 0\.222"):
        workspace.step("bank", "seal")
    allow(0.2)
    workspace.step("bank", "seal")
    line = next(c for c in shown(workspace)["columns"] if c["feature"] == "debt_ratio")
    assert line["loss_whole"] == "inf"
    assert line["least_cell_width"] == pytest.approx(2 / 9)
