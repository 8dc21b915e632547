"""A party's policy against a plan and a split request."""

from typing import Any

import pytest
import yaml

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.errors import PolicyError
from opboost_ops.privacy.consent import require_consent, require_splits_allowed
from tests.federation import Workspace


@pytest.fixture(scope="module")
def federation(trained_once: Workspace) -> Federation:
    return trained_once.declared


def policy(trained_once: Workspace, **changes: Any) -> Policy:
    data = yaml.safe_load((trained_once.folder / "bank" / "policy.yaml").read_text())
    return Policy.model_validate({**data, **changes})


def test_all_refusals_come_at_once(trained_once: Workspace, federation: Federation) -> None:
    rules = policy(trained_once).features
    features = {name: rule.model_dump() for name, rule in rules.items() if name != "income"}
    features["balance"]["mechanisms"] = ["local_map"]
    narrow = policy(trained_once, features=features, receivers={})
    with pytest.raises(PolicyError) as caught:
        require_consent(narrow, federation, "bank")
    for text in ("credit is not among", "income is not among", "balance.mechanisms: global_map"):
        assert text in str(caught.value)
    assert "policy.yaml" in caught.value.remedy


def test_another_key_of_the_receiver(trained_once: Workspace, federation: Federation) -> None:
    key = federation.parties["shop"].signing_key
    pinned = policy(trained_once, receivers={"credit": {"signing_key": key}})
    with pytest.raises(PolicyError, match="another signing key"):
        require_consent(pinned, federation, "bank")


@pytest.mark.parametrize(("most", "asked", "passes"), [(0, 1, False), (2, 2, True), (2, 3, False)])
def test_max_splits(
    trained_once: Workspace, federation: Federation, most: int, asked: int, passes: bool
) -> None:
    rules = {"income": {"mechanisms": ["global_map"], "max_splits": most}}
    narrow = policy(trained_once, features=rules)
    request = {"income": list(range(1, asked + 1))}
    if passes:
        require_splits_allowed(narrow, federation, "bank", request)
    else:
        with pytest.raises(PolicyError, match=f"max_splits is {most}, asked are {asked}"):
            require_splits_allowed(narrow, federation, "bank", request)


def test_a_feature_that_is_anothers(trained_once: Workspace, federation: Federation) -> None:
    rules = {name: {"mechanisms": ["global_map"]} for name in ("income", "spend")}
    wide = policy(trained_once, features=rules)
    with pytest.raises(PolicyError, match="spend is not a column that bank released"):
        require_splits_allowed(wide, federation, "bank", {"spend": [1]})


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({"max_loss_1": 0.4}, "features.income.max_loss_1 is 0.4, income costs 0."),
        ({"max_loss_whole": 2.5}, "features.income.max_loss_whole is 2.5, income costs 2."),
    ],
)
def test_a_loss_above_its_cap(
    trained_once: Workspace, federation: Federation, rule: dict[str, float], asked: str
) -> None:
    features = {
        name: {"uuid": feature.uuid, "mechanisms": ["global_map"]}
        for name, feature in federation.parties["bank"].features.items()
    }
    features["income"] |= rule  # type: ignore[operator]
    with pytest.raises(PolicyError) as caught:
        require_consent(policy(trained_once, features=features), federation, "bank")
    assert asked in str(caught.value)
    features["income"] |= {name: 10 * cap for name, cap in rule.items()}  # type: ignore[operator]
    require_consent(policy(trained_once, features=features), federation, "bank")


def test_an_infinite_loss_is_above_every_cap(
    trained_once: Workspace, federation: Federation
) -> None:
    data = federation.model_dump(mode="json")
    income = data["parties"]["bank"]["features"]["income"]
    income["mechanism"] = {"name": "local_map", "epsilon": 0.1, "theta": 2}
    features = {
        name: {
            "uuid": feature["uuid"],
            "mechanisms": ["global_map", "local_map"],
            "max_loss_whole": 1000,
        }
        for name, feature in data["parties"]["bank"]["features"].items()
    }
    with pytest.raises(PolicyError, match="max_loss_whole is 1000, income costs inf"):
        require_consent(
            policy(trained_once, features=features), parse_federation(data, "x"), "bank"
        )


def test_a_missing_bit_needs_a_name_too(trained_once: Workspace, federation: Federation) -> None:
    allowed = trained_once.policy("shop")
    require_consent(allowed, federation, "shop")
    data = allowed.model_dump(mode="json")
    data["features"]["returns_share"]["mechanisms"] = ["global_map"]
    with pytest.raises(PolicyError, match="missing_bit is not among them"):
        require_consent(type(allowed).model_validate(data), federation, "shop")
