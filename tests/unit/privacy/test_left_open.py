"""What a policy leaves open is said in red, and the documents' example leaves nothing open."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.errors import PolicyError
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.left_open import left_open
from tests.federation import Workspace
from tests.unit.cli.conftest import Opboost, opboost

__all__ = ["opboost"]

PAGE = Path(__file__).parents[3] / "docs" / "add-a-party.md"


def blocks() -> list[Any]:
    return [
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)
    ]


def example(domain: tuple[int, int], epsilon: float) -> Any:
    """The page's entry of the shop in a federation with a lender."""
    shop = next(block["shop"] for block in blocks() if "shop" in block)
    shop |= {"signing_key": "A" * 43 + "=", "encryption_key": "C" * 42 + "A="}
    for feature in shop["features"].values():
        feature["mechanism"]["epsilon"] = epsilon
    lender = {"role": "label_holder", "signing_key": "B" * 42 + "A=",
              "encryption_key": "D" * 42 + "A=",
              "label": {"column": "y", "task": "binary"}}  # fmt: skip
    data = {
        "version": 1,
        "name": "credit",
        "id": {"column": "id", "type": "string"},
        "domain": {"lower": domain[0], "upper": domain[1]},
        "parties": {"lender": lender, "shop": shop},
    }
    return parse_federation(data, "federation.yaml")


def policy(**without: Any) -> Policy:
    data = next(block for block in blocks() if block.get("party") == "shop" and "features" in block)
    data["receivers"] = {"lender": {"signing_key": "B" * 42 + "A="}}
    for rule in data["features"].values():
        for cap in without.get("caps", ()):
            del rule[cap]
    return Policy.model_validate(data)


def test_the_example_of_the_page_agrees_with_itself_and_leaves_nothing_open() -> None:
    require_consent(policy(), example((1, 10), 0.64), "shop")
    assert left_open(policy()) == []


def test_the_example_refuses_a_larger_domain(tmp_path: Path) -> None:
    asked = example((1, 200), 0.63)
    with pytest.raises(PolicyError, match=r"max_loss_whole is 2\.9, spend costs 34\.7"):
        require_consent(policy(), asked, "shop")
    # With a cap on loss(1) alone, as the page had it, it passes.
    require_consent(policy(caps=["max_loss_whole"]), asked, "shop")


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
        assert line in shown
        assert f"bank/policy.yaml: {line}" in checked
