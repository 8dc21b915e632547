"""What a policy leaves open is named; one with all caps leaves nothing open."""

import json
from typing import Any

import pytest

from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.errors import PolicyError
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.missing_caps import missing_caps
from tests.federation import Workspace
from tests.unit.cli.conftest import Opboost, opboost

__all__ = ["opboost"]

UUIDS = {
    "spend": "3716eb4f-d8b8-46e0-a2c7-348019d2a7cc",
    "late_payments": "9f0c2a55-6c0f-4c53-9a43-5d1a0d8b7f4e",
}
CAPS = {
    "max_loss_1": 0.5,
    "max_loss_whole": 2.9,
    "max_changes": 2,
    "budget_1": 1,
    "budget_whole": 5.8,
}


def federation(domain: tuple[int, int], epsilon: float) -> Any:
    """A shop and a lender."""
    mechanism = {"name": "global_map", "epsilon": epsilon}
    shop = {
        "role": "feature_holder",
        "signing_key": "A" * 43 + "=",
        "encryption_key": "C" * 42 + "A=",
        "features": {
            name: {"uuid": uuid, "bounds": [0, 9], "mechanism": mechanism}
            for name, uuid in UUIDS.items()
        },
    }
    lender = {
        "role": "label_holder",
        "signing_key": "B" * 42 + "A=",
        "encryption_key": "D" * 42 + "A=",
        "label": {"column": "y", "task": "binary"},
    }
    data = {
        "version": 1,
        "name": "credit",
        "id": {"column": "id", "type": "string"},
        "domain": {"lower": domain[0], "upper": domain[1]},
        "parties": {"lender": lender, "shop": shop},
    }
    return parse_federation(data, "federation.yaml")


def policy(without: str = "") -> Policy:
    """The shop's, with all caps but one."""
    caps = {name: cap for name, cap in CAPS.items() if name != without}
    rules = {
        name: {"uuid": uuid, "mechanisms": ["global_map"], **caps} for name, uuid in UUIDS.items()
    }
    receivers = {"lender": {"signing_key": "B" * 42 + "A="}}
    data = {"version": 1, "party": "shop", "require_encryption": True}
    data["alignment"] = {"seal_everybody": True, "max_new_queries": 100}
    return Policy.model_validate({**data, "features": rules, "receivers": receivers})


def test_all_caps_leave_nothing_open() -> None:
    require_consent(policy(), federation((1, 10), 0.64), "shop")
    assert missing_caps(policy()) == []


def test_a_larger_domain_is_refused() -> None:
    asked = federation((1, 200), 0.63)
    with pytest.raises(PolicyError, match=r"max_loss_whole is 2\.9, spend costs 34\.7"):
        require_consent(policy(), asked, "shop")
    # With a cap on loss(1) alone it passes.
    require_consent(policy(without="max_loss_whole"), asked, "shop")


def test_all_that_is_open_is_named(workspace: Workspace, opboost: Opboost) -> None:
    def bare(data: Any) -> None:
        data["require_encryption"] = False
        for rule in data["features"].values():
            for cap in ("max_loss_1", "max_loss_whole", "budget_1", "budget_whole", "max_changes"):
                rule.pop(cap, None)

    workspace.edit_yaml("bank/policy.yaml", bare)
    shown = opboost("ledger", "show", workspace.folder / "bank").output
    told = json.loads(opboost("ledger", "show", workspace.folder / "bank", "--json").output)
    checked = opboost("check", workspace.folder).output
    assert "require_encryption is off" in told["left_open"][0]
    for name in workspace.declared.parties["bank"].features:
        line = (
            f"features.{name} has no max_loss_1, max_loss_whole, budget_1, budget_whole, "
            "max_changes."
        )
        assert line in told["left_open"]
        assert f"features.{name}" in shown.partition("have no max_loss_1, ")[0]
        assert f"bank/policy.yaml: {line}" in checked
