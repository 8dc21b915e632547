"""What people do to a federation at one party is done once, written down, or refused."""

from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.errors import ConfigError, ContractError, OpBoostError, PolicyError
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.party_state import reuse_open_state
from opboost_ops.pipeline.party import admin_actions, own_table
from opboost_ops.pipeline.party.agreement import require_taking_part, stopped
from opboost_ops.pipeline.runner import runner
from tests.commands import opboost
from tests.federation import FIRST_RUN, Workspace
from tests.party_state import entries_of, state_of

NAME = "credit_scoring"
ASKING = "a" * 16
OTHER = "0" * 15 + "9"


@pytest.fixture
def two(workspace: Workspace) -> Workspace:
    """Two versions, the first of which is champion."""
    registry = workspace.registry
    files = {n: c for n, c in registry.files(FIRST_RUN).items() if n != "sha256.json"}
    registry.register(OTHER, files)
    registry.decide(OTHER, False, "worse")
    return workspace


def form(**given: Any) -> dict[str, Any]:
    return {"act": "promote", "version": OTHER, "reason": "drift", **given}


def ask(workspace: Workspace, party: str = "credit", run: str = ASKING, **given: Any) -> Any:
    return admin_actions.from_airflow(party, NAME, run, "ann", form(**given))


def entries(workspace: Workspace, party: str) -> list[Entry]:
    known = ("promoted", "rolled_back", "stopped", "resumed", "act_refused")
    with state_of(workspace, party) as state:
        state.audit.verify()
        return state.audit.of(*known)  # type: ignore[arg-type]


def told(workspace: Workspace, party: str) -> list[tuple[str, str, str]]:
    lines = [r for r in entries_of(workspace, party) if r.kind in admin_actions._TELLS]
    return [(r.account, r.kind, r.federation) for r in lines]


def command(workspace: Workspace, party: str, *words: str) -> str:
    """What a command prints, or the error with which it ends."""
    at = 1 if words[0] in ("stop", "resume") else 2
    _, out, err = opboost(*words[:at], workspace.folder / party, *words[at:])
    return " ".join(f"{out} {err}".split())


def test_promoted_through_airflow_and_rolled_back(two: Workspace) -> None:
    registry = two.registry
    assert ask(two) == {
        "act": "promote",
        "party": "credit",
        "run": ASKING,
        "version": OTHER,
    }
    assert registry.champion() == OTHER
    (done,) = entries(two, "credit")
    assert (done.action, done.place) == ("promoted", f"{NAME}/{ASKING}/act")
    assert done.detail == f"ann through Airflow: version {OTHER}: drift"
    assert told(two, "credit") == [("exact", "promoted", NAME)]
    ask(two, run="b" * 16, act="roll_back", version=FIRST_RUN)
    assert registry.champion() == FIRST_RUN
    assert registry.history()[-1].event == "rolled back"
    # A task that is cleared does nothing a second time.
    assert set(ask(two)) == {"skip"}
    assert registry.champion() == FIRST_RUN
    assert [entry.action for entry in entries(two, "credit")] == ["promoted", "rolled_back"]


@pytest.mark.parametrize(
    ("party", "given", "error", "words"),
    [
        ("credit", {"version": "f" * 16}, ContractError, "credit has no model version ffff"),
        ("credit", {"version": None}, ConfigError, "No version is named"),
        ("bank", {}, ContractError, "bank keeps no models of credit_scoring"),
        ("credit", {"act": "roll_back"}, ContractError, "was not champion before"),
        ("credit", {"version": "../../keys"}, ContractError, "has no model version"),
    ],
)
def test_what_cannot_be_put_into_use_is_refused_and_written_down(
    two: Workspace, party: str, given: dict[str, Any], error: type[OpBoostError], words: str
) -> None:
    with pytest.raises(error, match=words):
        ask(two, party, **given)
    assert two.registry.champion() == FIRST_RUN
    (refused,) = entries(two, party)
    assert refused.action == "act_refused"
    assert refused.detail.startswith("ann through Airflow: ")
    assert told(two, party) == []


@pytest.mark.parametrize(
    "given",
    [
        {"reason": "because Alice left"},
        {"reason": None},
        {"act": "forget"},
        {"act": ["promote"]},
        {"version": 7},
        {"why": "Alice"},
    ],
)
def test_a_form_that_cannot_be_read_is_not_repeated(two: Workspace, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="nothing was done") as caught:
        ask(two, **given)
    assert "Alice" not in str(caught.value)
    assert entries(two, "credit") == []


@pytest.mark.parametrize("act", admin_actions.ADMIN_ACTIONS)
def test_nothing_is_done_because_it_was_asked_where_no_policy_says_so(
    two: Workspace, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.edit_yaml("credit/policy.yaml", lambda policy: policy.pop("acts"))
    two.known_to(monkeypatch)
    form = {"act": act, "version": OTHER, "reason": "drift"}
    with pytest.raises(PolicyError, match=f"does not allow {act} through Airflow"):
        admin_actions.from_airflow("credit", NAME, "0" * 16, "ann", form)
    assert two.registry.champion() == FIRST_RUN
    assert [e.action for e in entries(two, "credit")] == ["act_refused"]


def test_a_party_that_has_stopped_refuses_all_runs_until_it_resumes(
    workspace: Workspace,
) -> None:
    workspace.until("desensitize", "bank")
    before = workspace.published()
    done = ask(workspace, "bank", act="stop", version=None)
    assert done == {"act": "stop", "party": "bank", "run": ASKING}
    with pytest.raises(PolicyError, match="bank refused run"):
        # A run under way, too.
        workspace.step("bank", "desensitize")
    with pytest.raises(PolicyError, match="has stopped taking part"):
        own_table.changed("bank", NAME, "look")
    assert workspace.published() == before
    assert "takes part in no run" in (workspace.home("bank") / "errors/refused.txt").read_text()
    workspace.step("shop", "desensitize")
    assert told(workspace, "bank") == [("exact", "stopped", NAME)]
    with pytest.raises(ConfigError, match="already"):
        ask(workspace, "bank", run="b" * 16, act="stop")
    for words, answer in (
        ((NAME, "--because", " "), "reason is required"),
        ((NAME, "--because", "all is well"), "takes part in runs"),
        ((NAME, "--because", "again"), "has not stopped"),
    ):
        assert answer in command(workspace, "bank", "resume", *words)
    workspace.step("bank", "desensitize")
    assert "no part in other" in command(workspace, "bank", "stop", "other", "--because", "x")
    assert "no run of" in command(workspace, "bank", "stop", NAME, "--because", "Alice asked")
    with pytest.raises(PolicyError, match="bank refused run") as caught:
        workspace.step("bank", "rank")
    assert "Alice" not in str(caught.value)
    kinds = ["stopped", "act_refused", "resumed", "act_refused", "act_refused", "stopped"]
    assert [entry.action for entry in entries(workspace, "bank")] == kinds


def test_a_process_under_way_hears_of_a_stop_by_another_one(workspace: Workspace) -> None:
    """Its state stays open between stages; the other one opens its own."""
    with reuse_open_state():
        workspace.until("desensitize", "bank")
        Context().run(command, workspace, "bank", "stop", NAME, "--because", "Alice asked")
        with pytest.raises(PolicyError, match="bank refused run"):
            workspace.step("bank", "desensitize")
        Context().run(command, workspace, "bank", "resume", NAME, "--because", "all is well")
        workspace.step("bank", "desensitize")


def test_a_stop_reaches_a_stage_under_way_before_it_publishes(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.until("seal", "bank")
    seal, published = runner.STAGES["seal"], workspace.published()

    def stopped_meanwhile(context: Any) -> Any:
        outcome = seal(context)
        Context().run(command, workspace, "bank", "stop", NAME, "--because", "Alice asked")
        return outcome

    monkeypatch.setattr(runner, "STAGES", {**runner.STAGES, "seal": stopped_meanwhile})
    with pytest.raises(PolicyError, match="bank refused run"):
        workspace.step("bank", "seal")
    assert workspace.published() == published


def test_a_stop_is_of_one_federation_and_of_one_party(workspace: Workspace, tmp_path: Path) -> None:
    with state_of(workspace, "bank") as state:
        state.audit.add("stopped", "credit_scoring_2/home/act", "bank", detail="another one")
        assert stopped(state, NAME) is None
    workspace.until("desensitize", "bank")
    workspace.step("bank", "desensitize")


def test_what_was_stopped_at_home_resumes_at_home(workspace: Workspace) -> None:
    ask(workspace, "bank", act="stop", version=None)
    with state_of(workspace, "bank") as state:
        stop = stopped(state, NAME)
    assert stop is not None and (stop.by, stop.at_home) == ("ann", False)
    done = ask(workspace, "bank", run="b" * 16, act="resume", version=None)
    assert done == {"act": "resume", "party": "bank", "run": "b" * 16}
    # One at home outranks one through Airflow.
    ask(workspace, "bank", run="c" * 16, act="stop", version=None)
    command(workspace, "bank", "stop", NAME, "--because", "Alice asked")
    with state_of(workspace, "bank") as state:
        stop = stopped(state, NAME)
    assert stop is not None and (stop.by, stop.at_home) == ("", True)
    with pytest.raises(PolicyError, match="stopped taking part in credit_scoring at home"):
        ask(workspace, "bank", run="d" * 16, act="resume", version=None)
    with pytest.raises(PolicyError, match="has stopped taking part"):
        require_taking_part(workspace.site("bank"), NAME)
    assert "takes part" in command(workspace, "bank", "resume", NAME, "--because", "all is well")
    require_taking_part(workspace.site("bank"), NAME)


def test_the_command_line_writes_it_down_too(two: Workspace) -> None:
    command(two, "credit", "models", "promote", OTHER, "--because", "seen by the board")
    assert two.registry.champion() == OTHER
    command(two, "credit", "models", "rollback", "--because", "worse at night")
    assert two.registry.champion() == FIRST_RUN
    done = entries(two, "credit")
    assert [entry.action for entry in done] == ["promoted", "rolled_back"]
    assert done[0].detail.endswith(f"version {OTHER}: seen by the board")
    assert "has no model version" in command(two, "credit", "models", "promote", "f" * 16)
