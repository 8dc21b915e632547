"""What a policy leaves open is named; one with all caps leaves nothing open."""

import json
from typing import Any

from opboost_ops.config.policy import Policy
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.missing_caps import missing_caps
from tests.federation import Workspace
from tests.unit.cli.conftest import Opboost, opboost

__all__ = ["opboost"]


CAPS = {
    "max_changes": 2,
    "budget_1": 2.0,
    "budget_whole": 12.0,
}


def policy(workspace: Workspace, **changes: Any) -> Policy:
    """The bank's, with all caps but some."""
    known = workspace.policy("bank")
    caps = {**CAPS, **changes}
    rules = {name: rule.model_copy(update=caps) for name, rule in known.features.items()}
    return known.model_copy(update={"features": rules})


def test_all_caps_leave_nothing_open(trained_once: Workspace) -> None:
    require_consent(policy(trained_once), trained_once.declared, "bank")
    assert missing_caps(policy(trained_once)) == []


def test_all_that_is_open_is_named(workspace: Workspace, opboost: Opboost) -> None:
    def bare(data: Any) -> None:
        data["require_encryption"] = False
        for rule in data["features"].values():
            for cap in ("budget_1", "budget_whole", "max_changes"):
                rule.pop(cap, None)

    workspace.edit_yaml("bank/policy.yaml", bare)
    shown = opboost("ledger", "show", workspace.folder / "bank").output
    told = json.loads(opboost("ledger", "show", workspace.folder / "bank", "--json").output)
    checked = opboost("check", workspace.folder).output
    assert "require_encryption is off" in told["left_open"][0]
    for name in workspace.declared.parties["bank"].features:
        line = f"features.{name} has no budget_1, budget_whole, max_changes."
        assert line in told["left_open"]
        assert f"features.{name}" in shown.partition("have no budget_1, ")[0]
        assert f"bank/policy.yaml: {line}" in checked
