"""A party's policy against a plan and a split request."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import yaml

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import PolicyError
from opboost_ops.mechanisms import GlobalMap, MissingBit
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.consent.compliance import (
    require_consent,
    require_own_columns,
    require_splits_allowed,
)
from opboost_ops.privacy.consent.exposure import guesses_of
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
    for text in ("credit is not listed", "income is not listed", "balance.mechanisms: global_map"):
        assert text in str(caught.value)
    assert "policy.yaml" in caught.value.remedy


def test_another_key_of_the_receiver(trained_once: Workspace, federation: Federation) -> None:
    key = federation.parties["shop"].signing_key
    pinned = policy(trained_once, receivers={"credit": {"signing_key": key}})
    with pytest.raises(PolicyError, match="a different signing key"):
        require_consent(pinned, federation, "bank")


def test_more_splits_than_the_domain_has(trained_once: Workspace, federation: Federation) -> None:
    rules = policy(trained_once)
    most = federation.domain.to_domain().size - 1
    require_splits_allowed(rules, federation, "bank", {"income": list(range(most))})
    with pytest.raises(PolicyError, match=f"income has {most} splits, but the request names"):
        require_splits_allowed(rules, federation, "bank", {"income": list(range(most + 1))})


def test_two_features_of_one_raw_column_are_refused(
    trained_once: Workspace, federation: Federation
) -> None:
    rules = policy(trained_once)
    require_own_columns(rules, federation, "bank")
    features = {name: rule.model_dump() for name, rule in rules.features.items()}
    features["balance"]["column"] = rules.raw_column("income", federation.id.column)
    with pytest.raises(PolicyError, match="balance and income"):
        require_own_columns(policy(trained_once, features=features), federation, "bank")


def test_a_feature_that_is_anothers(trained_once: Workspace, federation: Federation) -> None:
    rules = {name: {"mechanisms": ["global_map"]} for name in ("income", "spend")}
    wide = policy(trained_once, features=rules)
    with pytest.raises(PolicyError, match="spend is not a column that bank released"):
        require_splits_allowed(wide, federation, "bank", {"spend": [1]})


def test_a_missing_bit_needs_a_name_too(trained_once: Workspace, federation: Federation) -> None:
    allowed = trained_once.policy("shop")
    require_consent(allowed, federation, "shop")
    data = allowed.model_dump(mode="json")
    data["features"]["returns_share"]["mechanisms"] = ["global_map"]
    with pytest.raises(PolicyError, match="missing_bit is not listed"):
        require_consent(type(allowed).model_validate(data), federation, "shop")


@pytest.mark.parametrize("income", [
    {"bounds": [0, 9], "missing": {"fill": 4, "bit": 1.0}},
    {"type": "ordinal", "categories": list("abcdefghij"), "missing": {"fill": "e", "bit": 1.0}},
])  # fmt: skip
def test_a_missing_value_is_guessed_as_what_replaces_it(
    trained_once: Workspace, income: dict[str, Any]
) -> None:
    data = yaml.safe_load(trained_once.file.read_text())
    known = {"uuid": data["parties"]["bank"]["features"]["income"]["uuid"]}
    mechanism = {"name": "global_map", "epsilon": 1.0}
    data["domain"] = {"lower": 1, "upper": 10}
    data["parties"]["bank"]["features"] = {"income": {**known, **income, "mechanism": mechanism}}
    _, guess = guesses_of(Federation.model_validate(data), "bank")["income"]
    values = GlobalMap(epsilon=1.0).channel(Domain(1, 10)).probabilities()
    present, absent = MissingBit(epsilon=1.0).channel(BIT).probabilities()
    law = np.array([*(np.outer(present, row).ravel() for row in values),
                    np.outer(absent, values[4]).ravel()])  # fmt: skip

    def best(count: int) -> float:
        return max(law[list(some)].max(axis=0).sum() for some in combinations(range(11), count))

    assert guess.after == pytest.approx(best(11) / 11)
    assert guess.of_two == pytest.approx(best(2) / 2)
    assert guess.of_three == pytest.approx(best(3) / 3)
