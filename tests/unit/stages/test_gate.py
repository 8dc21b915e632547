"""What the gate decides of the same data, and what people decide by hand."""

from typing import Any

from opboost_ops.privacy.ledger.entries import LedgerEntry
from tests.federation import FIRST_RUN, Workspace
from tests.party_state import entries_of


def decision(workspace: Workspace) -> dict[str, Any]:
    return dict(workspace.home_json("credit", "gate"))


def charges(workspace: Workspace) -> list[LedgerEntry]:
    """The releases that feature holders have charged."""
    found: list[LedgerEntry] = []
    for party in workspace.declared.feature_holders:
        found += [line for line in entries_of(workspace, party) if line.kind == "release"]
    return found


def test_unchanged_data_promote_nothing_and_cost_nothing(workspace: Workspace) -> None:
    before = charges(workspace)
    summaries = workspace.all()
    assert before and charges(workspace) == before
    gate = decision(workspace)
    assert gate["new"] == gate["value"]
    assert gate["promote"] is False
    assert gate["why"].startswith("nothing has changed")
    assert FIRST_RUN in gate["why"]
    assert summaries["credit.register"]["champion"] is False
    kept = workspace.registry
    assert (kept.champion(), kept.history()[-1].event) == (FIRST_RUN, "kept")
