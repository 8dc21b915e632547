"""A protected feature becomes columns, each with its domain and its charge."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opboost_ops.config.agreement import computed
from opboost_ops.config.columns import Column, columns_of, non_default
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.loss import category_loss, column_losses, loss_curve
from opboost_ops.verifier.places import Artifact
from opboost_ops.verifier.plans import Plan
from tests.unit.config.test_agreement import data

FEATURES: dict[str, Any] = {
    "age": {"bounds": [0, 100], "mechanism": {"name": "global_map", "epsilon": 0.5}},
    "channel": {
        "type": "nominal",
        "categories": ["web", "app", "store"],
        "mechanism": {"name": "unary", "epsilon": 2},
        "missing": {"fill": "web", "bit": 0.3},
    },
    "grade": {
        "type": "ordinal",
        "categories": ["low", "high"],
        "mechanism": {"name": "grr", "epsilon": 1},
    },
}


def federation(**features: Any) -> Federation:
    named = {
        name: {"uuid": f"00000000-0000-4000-8000-{i:012d}", **feature}
        for i, (name, feature) in enumerate((features or FEATURES).items())
    }
    return parse_federation(data(parties__bank__features=named), "federation.yaml")


def columns() -> dict[str, Column]:
    return {column.name: column for column in columns_of(federation(), "bank")}


def test_each_category_is_a_bit_and_a_missing_bit_stands_beside() -> None:
    found = columns()
    assert list(found) == [
        "age",
        "channel=web",
        "channel=app",
        "channel=store",
        "channel=missing",
        "grade",
    ]
    assert [found[name].bit for name in found] == [None, 0, 1, 2, None, None]
    assert found["age"].domain == Domain(1, 10)
    assert found["channel=app"].domain == found["channel=missing"].domain == BIT
    assert found["channel=app"].source_domain == Domain(0, 2)


def test_a_column_has_as_many_values_as_it_declares() -> None:
    grr = {"name": "grr", "epsilon": 1}
    found = federation(
        grade={"type": "ordinal", "categories": ["low", "middle", "high"], "mechanism": grr},
        many={"type": "ordinal", "categories": [str(i) for i in range(12)], "mechanism": grr},
        flag={"type": "boolean", "mechanism": grr},
        rooms={"bounds": [1, 7], "domain": {"lower": 1, "upper": 7}, "mechanism": grr},
    )
    domains = {column.name: column.domain for column in columns_of(found, "bank")}
    assert domains == {
        "grade": Domain(1, 3),
        "many": Domain(1, 10),
        "flag": Domain(0, 1),
        "rooms": Domain(1, 7),
    }
    declared = {**non_default(found), "training": {"trainer": "lightgbm"}}
    document = {"federation": declared, "purpose": "train"}
    plan = Plan(Artifact("credit/run/plan/lender", Path()), document, {})
    assert {column.name: column.channel_digest for column in plan.columns("bank")} == {
        name.removeprefix("bank."): digests["channel"] for name, digests in computed(found).items()
    }
    rooms = found.parties["bank"].features["rooms"].domain_map(found.domain.to_domain())
    assert rooms.encode(np.arange(1, 8)).tolist() == [*range(1, 8)], "each value has its own cell"


def test_bits_of_a_category_are_one_charge_and_the_missing_bit_another() -> None:
    losses = column_losses(columns().values())
    assert list(losses) == ["age", "channel", "channel=missing", "grade"]
    channel = columns()["channel=web"].mechanism
    assert losses["channel"] == category_loss(channel, 3)  # type: ignore[arg-type]
    assert len(losses["channel"].loss) == 2
    assert losses["channel=missing"] == loss_curve(columns()["channel=missing"].mechanism, BIT)


def test_another_set_of_categories_is_another_map() -> None:
    other = dict(FEATURES["channel"], categories=["web", "app", "shop"])
    changed = columns_of(federation(channel=other), "bank")[0]
    assert changed.map_digest != columns()["channel=web"].map_digest


def test_a_feature_may_not_be_named_like_a_bit() -> None:
    with pytest.raises(ConfigError, match="joins a feature and its category"):
        federation(**{"a=b": FEATURES["age"]})
