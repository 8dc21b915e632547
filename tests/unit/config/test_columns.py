"""A protected feature becomes columns, each with its domain and its charge."""

from typing import Any

import pytest

from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.privacy.loss import category_loss, column_losses, loss_curve
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
    assert found["age"].domain == found["grade"].domain == Domain(1, 10)
    assert found["channel=app"].domain == found["channel=missing"].domain == BIT
    assert found["channel=app"].source_domain == Domain(0, 2)


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
