"""What the gate decides of the same data, and what people decide by hand."""

from dataclasses import replace
from typing import Any

import pytest

from opboost_ops.learning.registry.registry import Registry
from opboost_ops.privacy.ledger.entries import LedgerEntry
from tests.federation import FIRST_RUN, Workspace
from tests.party_state import entries_of

OTHER = "f" * 16


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


def test_a_run_that_was_held_back_does_not_replace_what_was_decided_meanwhile(
    fresh: Workspace,
) -> None:
    """Without the other version the gate promotes it: it is that of every first run here."""
    fresh.until("evaluate")
    fresh.registry.register(OTHER, {"model.txt": b"tree", "evaluation.json": b'{"metrics": {}}'})
    fresh.registry.promote(OTHER, "a person decided it")
    for _ in range(2):  # Cleared, it says the same.
        fresh.step("credit", "evaluate")
        registered = fresh.step("credit", "register")
        assert (registered["version"], registered["champion"]) == (FIRST_RUN, False)
        assert "the champion has changed since the run began" in registered["why"]
    assert fresh.step("credit", "announce_champion")["champion"] is False
    assert fresh.registry.champion() == OTHER
    assert [entry.event for entry in fresh.registry.history()] == ["promoted", "kept"]
    fresh.registry.promote(FIRST_RUN, "a person compared both")


def test_a_run_that_was_promoted_can_be_cleared_after_another_one(workspace: Workspace) -> None:
    registry, first = workspace.registry, replace(workspace, run=FIRST_RUN)
    registry.register(OTHER, {"model.txt": b"tree", "evaluation.json": b'{"metrics": {}}'})
    registry.promote(OTHER, "a person decided it")
    first.step("credit", "evaluate")
    assert first.step("credit", "register")["champion"] is False
    assert registry.champion() == OTHER


def killed_in(method: str, workspace: Workspace) -> None:
    """End a registration in a method of the registry, as a kill would."""

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    workspace.until("register")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Registry, method, die)
        workspace.step("credit", "register")


def test_a_run_that_was_killed_while_it_was_promoted_completes_its_promotion(
    fresh: Workspace,
) -> None:
    killed_in("_record", fresh)
    fresh.step("credit", "evaluate")
    assert fresh.step("credit", "register")["champion"] is True
    assert fresh.registry.history()[-1].event == "promoted"


def test_a_run_that_was_killed_and_overtaken_keeps_its_version(fresh: Workspace) -> None:
    killed_in("decide", fresh)
    fresh.registry.register(OTHER, {"model.txt": b"tree", "evaluation.json": b'{"metrics": {}}'})
    fresh.registry.promote(OTHER, "a person decided it")
    fresh.step("credit", "evaluate")
    assert fresh.step("credit", "register")["champion"] is False
    assert (fresh.registry.champion(), fresh.registry.history()[-1].event) == (OTHER, "kept")
