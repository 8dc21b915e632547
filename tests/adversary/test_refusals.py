"""Whatever a party refuses a plan for, outside it is one text; and a refusal means what it says."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from opboost_ops.errors import BudgetError
from opboost_ops.exchange.manifest import PROTOCOL
from opboost_ops.exchange.sealed import month_keys
from opboost_ops.pipeline.party import admission
from opboost_ops.pipeline.party.agreement import withdraw
from tests.adversary.kit import forge_plan, of_run, refusal
from tests.federation import Workspace
from tests.party_state import state_of


def of_another_month(workspace: Workspace) -> None:
    later = month_keys.epoch_at(datetime.now(UTC) + timedelta(days=90))
    forge_plan(workspace, epoch=later)


def of_a_past_month(workspace: Workspace) -> None:
    forge_plan(workspace, epoch="2026-01")


def of_no_agreement(workspace: Workspace) -> None:
    forge_plan(workspace, agreed="0" * 64)


def of_another_protocol(workspace: Workspace) -> None:
    forge_plan(workspace, agreed="0" * 64, protocol=PROTOCOL + 1)


def of_other_bounds(workspace: Workspace) -> None:
    def change(data: Any) -> None:
        data["parties"]["bank"]["features"]["debt_ratio"]["bounds"] = [0, 0.001]

    forge_plan(workspace, change)


def against_the_policy(workspace: Workspace) -> None:
    workspace.edit_yaml("bank/policy.yaml", lambda p: p["features"].pop("debt_ratio"))


def of_a_stranger(workspace: Workspace) -> None:
    workspace.edit_yaml("bank/policy.yaml", lambda p: p["receivers"].pop("credit"))


def after_it_withdrew(workspace: Workspace) -> None:
    withdraw(workspace.site("bank"), 1)


#: Each with a word of the reason that the party's own people read.
ATTACKS: dict[Callable[[Workspace], None], str] = {
    of_another_month: "",
    of_a_past_month: "",
    of_no_agreement: "is not under the newest",
    of_another_protocol: "protocol",
    of_other_bounds: "",
    against_the_policy: "",
    of_a_stranger: "",
    after_it_withdrew: "the newest one was withdrawn",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_every_refusal_of_a_plan_is_one_text(
    workspace: Workspace, attack: Callable[[Workspace], None]
) -> None:
    workspace.open()
    attack(workspace)
    told = str(admission.refusal("bank", "credit_scoring", workspace.run))
    assert refusal(workspace, "bank") == told
    assert workspace.reason("bank").strip()
    assert ATTACKS[attack] in workspace.reason("bank")
    assert of_run(workspace, "bank") == []


def test_a_budget_refuses_what_would_exceed_it_and_says_by_how_much(workspace: Workspace) -> None:
    with state_of(workspace, "bank") as state:
        state.releases.end(release.id for release in state.releases.all())
    workspace.edit_yaml("bank/policy.yaml", lambda p: p["features"]["income"].update(budget=1e-6))
    _, error = workspace.first_failure()
    assert isinstance(error, BudgetError)
    (cap, spent, needed), *_ = re.findall(
        r"is ([\d.e+-]+), ([\d.]+) are spent, and it needs (\d[\d.]*\d)", str(error)
    )
    assert float(spent) + float(needed) > float(cap)
    assert "exceed" in str(error), "to pass a budget could mean to comply with it"
