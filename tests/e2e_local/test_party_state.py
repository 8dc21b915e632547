"""`opboost ledger` and `forget`: what the state says, and a person who is removed from it."""

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

from opboost_ops.reports.lineage import lineage_events
from tests.commands import opboost, printed
from tests.federation import Workspace
from tests.party_state import entries_of, state_of


def shown(workspace: Workspace, party: str = "bank", *more: str) -> Any:
    return json.loads(printed("ledger", "show", workspace.folder / party, "--json", *more))


def test_the_ledger_tells_releases_losses_and_what_is_exact(trained_once: Workspace) -> None:
    told = shown(trained_once, "shop")
    features = trained_once.declared.parties["shop"].features
    assert set(told) == {"columns", "exact", "models"}
    assert {line["feature"] for line in told["columns"]} == set(features)
    for line in told["columns"]:
        assert set(line) == {
            "feature", "column", "receiver", "releases", "loss", "spent", "budget", "since",
        }  # fmt: skip
        assert line["receiver"] == "credit"
        assert line["releases"] == [line["since"]]
        assert line["budget"] is None
        assert line["spent"] == line["loss"] > 0
    assert {line["kind"] for line in told["exact"]} >= {"psi_answer", "shares", "split_values"}
    assert told["models"] == []
    text = printed("ledger", "show", trained_once.folder / "shop")
    assert "What each column has cost" in text
    assert "Disclosed exactly" in text


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_the_ledger_is_exported_whole(trained_once: Workspace, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"ledger.{suffix}"
    printed("ledger", "export", trained_once.folder / "bank", "--out", out)
    lines = entries_of(trained_once, "bank")
    found = json.loads(out.read_text()) if suffix == "json" else list(csv.DictReader(out.open()))
    assert [line["artifact"] for line in found] == [line.artifact for line in lines]
    assert [line["feature"] or None for line in found] == [line.feature for line in lines]


def test_check_finds_what_was_reserved_and_not_completed(workspace: Workspace) -> None:
    assert "head" in printed("ledger", "check", workspace.folder / "bank")
    with state_of(workspace, "bank") as state:
        line = state.ledger.entries()[0]
        state.ledger.reserve([line.model_copy(update={"artifact": "f" * 64})])
    code, out, _ = opboost("ledger", "check", workspace.folder / "bank", "--json")
    assert code == 1
    assert [gap["lacks"] for gap in json.loads(out)["gaps"]] == ["open"]


def pinned(workspace: Workspace) -> set[int]:
    """How many people each release has pinned."""
    with state_of(workspace, "bank") as state:
        return {release.pins.rows for release in state.releases.all() if release.pins}


def test_a_forgotten_person_leaves_pins_and_next_releases(workspace: Workspace) -> None:
    tables = [pl.read_parquet(workspace.table_path(p)) for p in ("credit", "shop", "bank")]
    common = set(tables[0]["id"]) & set(tables[1]["id"]) & set(tables[2]["id"])
    person = sorted(common)[0]
    people = pinned(workspace)
    receipt = workspace.folder / "receipt.json"
    told = printed(
        "forget", workspace.folder / "bank", "-", "--receipt", receipt, stdin=f"{person}\n"
    )
    assert "forgot the person" in told
    kept = json.loads(receipt.read_text())
    assert kept["pins_removed"] > 0 and kept["artifacts_that_cannot_be_recalled"]["credit"]
    assert kept["still_in_the_tables_of"] == ["credit_scoring"]
    assert person not in receipt.read_text()
    with state_of(workspace, "bank") as state:
        assert (kept["audit_entry"], kept["audit_head"]) == state.audit.verify()
    again = printed("forget", workspace.folder / "bank", person, "--receipt", receipt, fails=True)
    assert "Nobody was forgotten yet" in again
    assert "Cannot be recalled" in told
    assert "credit" in told
    assert person not in told
    assert pinned(workspace) == {count - 1 for count in people}
    summaries = workspace.all()
    rows = summaries["credit.open_rows"]
    assert rows["train"] + rows["holdout"] == len(common) - 1
    assert pinned(workspace) == {count - 1 for count in people}
    for path in (workspace.folder / "bank" / "pins").iterdir():
        assert person.encode() not in path.read_bytes()
    printed("forget", workspace.folder / "bank", "", fails=True)


def test_local_map_has_an_infinite_loss_and_so_no_budget(workspace: Workspace) -> None:
    local = {"mechanism": {"name": "local_map", "epsilon": 1, "theta": 4}}
    workspace.declare("federation.yaml", parties={"bank": {"features": {"debt_ratio": local}}})
    rule = {"mechanisms": ["local_map"], "budget": 100}
    workspace.declare("bank/policy.yaml", features={"debt_ratio": rule})
    step, error = workspace.first_failure()
    assert step == "bank.check_table"
    assert "the loss of this release is infinite" in str(error)
    workspace.declare("bank/policy.yaml", features={"debt_ratio": {"budget": None}})
    workspace.until("seal", "bank")
    workspace.step("bank", "seal")
    line = next(c for c in shown(workspace)["columns"] if c["feature"] == "debt_ratio")
    assert line["loss"] == "inf"


def test_lineage_says_what_the_ledger_says_and_no_more(
    trained_once: Workspace, tmp_path: Path
) -> None:
    out = tmp_path / "lineage.ndjson"
    printed("ledger", "export", trained_once.folder / "bank", "--out", out)
    events = [json.loads(line) for line in out.read_text().splitlines()]
    released = {
        (facet["receiver"], release["kind"], release["feature"], release["loss_whole"])
        for event in events
        for output in event["outputs"]
        for facet in [output["facets"]["opboost_releases"]]
        for release in facet["releases"]
    }
    assert released == {
        (entry.receiver, entry.kind, entry.feature, entry.loss.loss[-1] if entry.loss else None)
        for entry in entries_of(trained_once, "bank")
    }
    masked = {
        field: origin["transformations"][0]["masking"]
        for event in events
        for output in event["outputs"]
        for field, lineage in output["facets"]["columnLineage"]["fields"].items()
        for origin in lineage["inputFields"]
    }
    assert set(masked) >= set(trained_once.declared.parties["bank"].features)
    # The client's own classes check the form of dates, ids and addresses.
    for event in events:
        RunEvent(
            eventTime=event["eventTime"],
            run=Run(runId=event["run"]["runId"]),
            job=Job(**event["job"]),
            eventType=RunState[event["eventType"]],
            producer=event["producer"],
            inputs=[InputDataset(**dataset) for dataset in event["inputs"]],
            outputs=[OutputDataset(**dataset) for dataset in event["outputs"]],
        )
    renamed = [
        ("2026-01-31T00:00:00+00:00", entry.model_copy(update={"column": "zq7_raw"}))
        for entry in entries_of(trained_once, "bank")
    ]
    assert "zq7_raw" not in json.dumps(lineage_events(renamed))
