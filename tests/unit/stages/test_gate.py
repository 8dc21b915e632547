"""A new model becomes champion only if it is not worse than the champion by more than agreed."""

import json
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.errors import ContractError
from opboost_ops.models.registry import Registry
from opboost_ops.privacy.events import Release
from tests.commands import printed
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace, small_credit
from tests.party_state import state_of


@pytest.fixture(scope="module")
def good_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A champion that is much better than one stump: little noise, many trees."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("gate") / "federation",
        small_credit(rows=1500),
        epsilon=20,
        training={"trees": 30, "depth": 3},
    )
    with workspace.known():
        workspace.all()
    return workspace


@pytest.fixture
def good(good_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    copy = good_once.copy(tmp_path / "good", SECOND_RUN)
    copy.known_to(monkeypatch)
    return copy


def registry(workspace: Workspace) -> Registry:
    return Registry(workspace.folder / "credit" / "models", "credit_scoring")


def decision(workspace: Workspace) -> dict[str, Any]:
    return dict(workspace.home_json("credit", "gate"))


def charges(workspace: Workspace) -> list[Release]:
    """What feature holders have charged people for."""
    found: list[Release] = []
    for party in workspace.declared.feature_holders:
        with state_of(workspace, party) as state:
            found += [line for line in state.ledger.releases() if line.draw is not None]
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
    kept = registry(workspace)
    assert (kept.champion(), kept.history()[-1].event) == (FIRST_RUN, "kept")


def test_a_worse_model_is_kept_aside_and_people_are_told(
    good: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    workspace = good
    workspace.edit_yaml(
        "federation.yaml", lambda data: data["training"].update(trees=1, depth=1, tolerance=0.0)
    )
    with caplog.at_level("WARNING", logger="opboost_ops"):
        summaries = workspace.all()
    gate = decision(workspace)
    assert gate["promote"] is False
    assert gate["new"] < gate["value"]
    assert "was not promoted" in caplog.text
    assert summaries["credit.register"]["champion"] is False
    assert "worse by more than the tolerance 0" in summaries["credit.register"]["why"]
    kept = registry(workspace)
    assert kept.champion() == FIRST_RUN
    assert SECOND_RUN in kept.versions()
    assert kept.history()[-1].event == "kept"
    # Deciding again changes nothing.
    workspace.step("credit", "register")
    assert len(kept.history()) == 2


def test_tolerance_is_what_was_declared(good: Workspace) -> None:
    workspace = good
    workspace.edit_yaml(
        "federation.yaml", lambda data: data["training"].update(trees=1, depth=1, tolerance=1.0)
    )
    workspace.all()
    assert decision(workspace)["promote"] is True
    assert decision(workspace)["new"] < decision(workspace)["value"]
    assert registry(workspace).champion() == SECOND_RUN


def command(workspace: Workspace, *words: str, fails: bool = False) -> str:
    return printed("models", words[0], workspace.folder / "credit", *words[1:], fails=fails)


def test_promote_and_rollback_by_hand(workspace: Workspace) -> None:
    told = command(workspace, "rollback", fails=True)
    assert "no champion before" in told
    # Other trees on the same rows may become champion.
    workspace.edit_yaml("federation.yaml", lambda data: data["training"].update(trees=5))
    workspace.all()
    assert "on the same rows" in decision(workspace)["why"]
    assert [line["champion"] for line in json.loads(command(workspace, "list", "--json"))] == [
        False,
        True,
    ]
    command(workspace, "rollback", "--because", "drift")
    kept = registry(workspace)
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
    card = json.loads(command(workspace, "show", "--json"))
    assert card["run"] == SECOND_RUN
    assert "no model version" in command(workspace, "promote", "nothing", fails=True)
    with pytest.raises(ContractError):
        kept.promote("nothing", "by hand")
    assert "Model versions" in command(workspace, "list")
