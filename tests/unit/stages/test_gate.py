"""What the gate decides of the same data, and what people decide by hand."""

from typing import Any

import pytest

from opboost_ops.errors import ContractError
from opboost_ops.privacy.ledger.entries import LedgerEntry
from tests.commands import printed, printed_json
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
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


def command(workspace: Workspace, *words: str, fails: bool = False) -> str:
    return printed("models", words[0], workspace.folder / "credit", *words[1:], fails=fails)


def test_promote_and_rollback_by_hand(workspace: Workspace) -> None:
    assert "no champion before" in command(workspace, "rollback", fails=True)
    # Other trees on the same rows may become champion.
    workspace.declare("federation.yaml", training={"trees": 5})
    workspace.all()
    assert "on the same rows" in decision(workspace)["why"]
    listed = printed_json("models", "list", workspace.folder / "credit")
    assert [line["champion"] for line in listed] == [False, True]
    command(workspace, "rollback", "--because", "drift")
    kept = workspace.registry
    assert kept.champion() == FIRST_RUN
    assert kept.history()[-1].why == "drift"
    command(workspace, "promote", SECOND_RUN)
    assert kept.champion() == SECOND_RUN
    listed = command(workspace, "list")
    assert FIRST_RUN in listed and SECOND_RUN in listed, "a name that is cut is of no use"
    command(workspace, "rollback", FIRST_RUN)
    assert kept.champion() == FIRST_RUN
    command(workspace, "promote", SECOND_RUN)
    assert "has no model version nothing" in command(workspace, "rollback", "nothing", fails=True)
    card = printed_json("models", "show", workspace.folder / "credit")
    assert card["run"] == SECOND_RUN
    assert "no model version" in command(workspace, "promote", "nothing", fails=True)
    with pytest.raises(ContractError):
        kept.promote("nothing", "by hand")
    assert "Model versions" in command(workspace, "list")
