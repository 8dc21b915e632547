"""A party's own people hear of a budget that ends and of a key that expires before a run fails."""

from datetime import UTC, datetime, timedelta

import pytest

from opboost_ops.pipeline.party.inbox import Run
from opboost_ops.pipeline.runner.runner import run_stage
from tests.federation import Workspace
from tests.party_state import entries_of


def heard(workspace: Workspace, party: str) -> list[str]:
    """What a party's people hear when it checks its table."""
    notices: list[str] = []
    run = Run("credit_scoring", workspace.run, "credit")
    run_stage(party, "check_table", run, notice=notices.append)
    return notices


def test_nothing_is_heard_while_all_is_well(workspace: Workspace) -> None:
    workspace.open()
    assert heard(workspace, "bank") == heard(workspace, "credit") == []


@pytest.mark.parametrize(("times", "low"), [(1.5, True), (2.5, False)])
def test_a_budget_that_ends_soon(workspace: Workspace, times: float, low: bool) -> None:
    lines = [r for r in entries_of(workspace, "bank") if r.feature == "income" and r.loss]
    whole = float(lines[0].loss.loss[-1])  # type: ignore[union-attr]
    workspace.declare("bank/policy.yaml", features={"income": {"budget": times * whole}})
    workspace.open()
    # Released once and for all, a column needs no more.
    assert heard(workspace, "bank") == []
    yearly = {"bank": {"features": {"income": {"refresh": "yearly"}}}}
    workspace.declare("federation.yaml", parties=yearly)
    workspace = Workspace(workspace.folder, "0" * 15 + "3")
    workspace.open()
    assert heard(workspace, "bank") == (["budget_low"] if low else [])
    assert heard(workspace, "shop") == []


def test_a_budget_that_comes_after_a_release_of_no_bounded_loss(workspace: Workspace) -> None:
    income = {"refresh": "yearly", "mechanism": {"name": "local_map", "epsilon": 1, "theta": 2}}
    workspace.declare("federation.yaml", parties={"bank": {"features": {"income": income}}})
    rule = {"mechanisms": ["local_map"], "budget": None}
    workspace.declare("bank/policy.yaml", features={"income": rule})
    workspace = Workspace(workspace.folder, "0" * 15 + "3")
    workspace.until("seal")
    workspace.declare("bank/policy.yaml", features={"income": {"budget": 5.0}})
    workspace = Workspace(workspace.folder, "0" * 15 + "4")
    workspace.open()
    assert heard(workspace, "bank") == ["budget_low"]


@pytest.mark.parametrize(("days", "soon"), [(3, True), (300, False)])
def test_a_key_that_expires_soon(workspace: Workspace, days: int, soon: bool) -> None:
    last = (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    workspace.declare("federation.yaml", parties={"shop": {"signing_key_expires": last}})
    workspace.open()
    assert heard(workspace, "shop") == (["key_expires"] if soon else [])
