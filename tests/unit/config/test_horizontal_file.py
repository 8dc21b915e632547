"""A federation file of horizontal learning: what it says, and all its faults at once."""

from typing import Any

import pytest

from opboost_ops.config.columns import shared_columns
from opboost_ops.config.loading import parse_federation
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.signing import new_signing_key
from tests.horizontal import declaration


def good() -> dict[str, Any]:
    keys = {f"bank_{i}": {"signing_key": new_signing_key(bytes([i] * 32))[1]} for i in range(3)}
    return declaration(keys)


def faults(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_federation(data, "federation.yaml")
    return str(raised.value)


def test_what_is_declared_once_is_every_partys() -> None:
    federation = parse_federation(good(), "federation.yaml")
    assert federation.label_holder == "bank_0" and federation.feature_holders == ()
    assert federation.scoring.mode == "local"
    for spec in federation.parties.values():
        assert spec.features == federation.shared_features and spec.label == federation.label
    # A plan is such a federation written and read again.
    assert parse_federation(federation.model_dump(mode="json"), "plan") == federation


def test_all_faults_come_at_once() -> None:
    data = good()
    data["parties"].pop("bank_2")
    active = data["parties"]["bank_0"]
    data["parties"]["bank_1"] |= {"features": {"x": active["features"]["age"]}}
    data["training"] = {"method": "hist"}
    active["label"] = {"column": "age", "task": "regression"}
    data["scoring"] = {"mode": "routed"}
    active["features"]["income"] = {
        "uuid": active["features"]["age"]["uuid"],
        "missing": {"fill": 0, "bit": 1},
    }
    active["features"]["kind"] = {
        "uuid": "6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b11",
        "type": "nominal",
        "missing": "keep",
        "mechanism": {"name": "unary", "epsilon": 1},
    }
    text = faults(data)
    for place in (
        "parties: are 2",
        "parties.bank_1.features",
        "training.method",
        "scoring",
        "parties.bank_0.label.bounds",
        "parties.bank_0.features.age: is the label",
        "parties.bank_0.features.age.uuid: is also that of parties.bank_0.features.income",
        "parties.bank_0.features.income.bounds",
        "parties.bank_0.features.income.missing.bit",
        "parties.bank_0.features.kind.missing: is keep",
        "parties.bank_0.features.kind.mechanism",
        "parties.bank_0.features.kind.categories",
    ):
        assert f"- {place}" in text, text


@pytest.mark.parametrize("role", ["active", "label_holder"])
def test_one_party_is_active_and_all_others_are_passive(role: str) -> None:
    data = good()
    data["parties"]["bank_1"]["role"] = role
    if role == "active":
        assert "- parties: has 2 active parties" in faults(data)
    else:
        assert "- parties.bank_1.role: is label_holder" in faults(data)


def test_common_columns_may_have_declared_edges() -> None:
    data = good()
    features = data["parties"]["bank_0"]["features"]
    features["income"]["scale"] = {"edges": [1000, 5000]}
    federation = parse_federation(data, "federation.yaml")
    assert {c.name for c in shared_columns(federation)} >= {"income"}
    stored = federation.model_dump(mode="json")
    assert parse_federation(stored, "federation.json") == federation
    features["income"]["scale"] |= {"epsilon": 1}
    assert "- parties.bank_0.features.income.scale.epsilon: " in faults(data)


def test_private_sums_refuse_what_only_exact_ones_have() -> None:
    data = good()
    data["training"]["learning_rate"] = 0.3
    parse_federation(data, "federation.yaml")
    data["training"]["private"] = {"epsilon": 4.0, "delta": 1e-6}
    assert "- training.learning_rate: is 0.3" in faults(data)
    data["training"]["learning_rate"] = 0.2
    parse_federation(data, "federation.yaml")


def test_whether_a_column_may_miss_values_is_declared() -> None:
    data = good()
    features = data["parties"]["bank_0"]["features"]
    for column in ("age", "income"):
        features[column] |= {"bounds": [0, 100], "missing": "forbid"}
    features["income"]["missing"] = "keep"
    kept = {c.name: c for c in shared_columns(parse_federation(data, "federation.yaml"))}
    assert kept["income"].keeps and not kept["age"].keeps
    features["income"]["missing"] = "forbid"
    never = {c.name: c for c in shared_columns(parse_federation(data, "federation.yaml"))}
    # It is part of what all parties agree on.
    assert never["income"].digest != kept["income"].digest
    assert never["age"].digest == kept["age"].digest


def test_classes_are_never_read_off_the_data() -> None:
    data = good()
    del data["parties"]["bank_0"]["label"]["classes"]
    assert "parties.bank_0.label.classes" in faults(data)


def test_vertical_learning_refuses_what_is_horizontal() -> None:
    data = good()
    data["learning"] = "vertical"
    text = faults(data)
    for place in ("parties.bank_0.role", "training.trainer", "parties"):
        assert f"- {place}: " in text, text


@pytest.mark.parametrize(
    ("private", "told"),
    [
        ({"colluding": 3}, "leaves no honest party"),
        ({"remain": 2}, "training.private.remain: is not a known key"),
        ({"delta": None}, "training.private.delta: is empty"),
        ({"splits": "random"}, "splits: is not a known key"),
        ({"colluding": 0}, "training.private.colluding"),
    ],
)
def test_what_leaves_no_guarantee_is_a_fault(private: dict[str, Any], told: str) -> None:
    data = good()
    data["training"]["private"] = {"epsilon": 4.0, "delta": 1e-4, "colluding": 1, **private}
    assert told in faults(data)


def test_sums_have_noise_where_nothing_else_is_declared() -> None:
    data = good()
    exact = parse_federation(data, "federation.yaml")
    assert exact.training.private is None
    assert parse_federation(exact.model_dump(mode="json"), "plan") == exact
    del data["training"]["private"]
    noise = parse_federation(data, "federation.yaml").training.private
    assert noise is not None and (noise.epsilon, noise.delta) == (4.0, 1e-6)
    data["training"]["private"] = None
    assert "training.private" in faults(data)
    data["training"]["private"] = "none"
    data["parties"]["bank_0"]["label"] = {"column": "y", "task": "multiclass", "classes": [0, 1, 2]}
    parse_federation(data, "federation.yaml")
    del data["training"]["private"]
    assert "training.private: none" in faults(data)
