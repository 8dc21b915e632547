"""What parties agree on: which keys, in which form, and the digests of a column's map."""

import hashlib
import json
import uuid
from typing import Any

import pytest

from opboost_ops.config.agreement import (
    FREE,
    FREE_VERTICAL,
    PROTOCOL,
    differences,
    digest_of,
    document,
)
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.resources import shipped
from opboost_ops.exchange.signing import new_signing_key
from opboost_ops.extras.datasets.workspace import federation_terms
from opboost_ops.pipeline.evaluation.reference import maps
from tests.unit.config.test_horizontal_file import good


def data(**changes: Any) -> dict[str, Any]:
    """A federation of two parties, with a numeric, an ordinal and a nominal feature."""
    keys = [new_signing_key(bytes([i] * 32))[1] for i in (1, 2)]
    mechanism = {"name": "global_map", "epsilon": 1.0}
    features = {
        "income": {"bounds": [0, 100], "missing": {"fill": 25}, "mechanism": mechanism},
        "size": {"type": "ordinal", "categories": ["s", "m", "l"], "mechanism": mechanism},
        "kind": {
            "type": "nominal",
            "categories": ["a", "b"],
            "mechanism": {"name": "unary", "epsilon": 2.0},
        },
    }
    for name in features:
        features[name]["uuid"] = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
    made = {
        "version": 1,
        "name": "toy",
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, "toy")),
        "terms": federation_terms("Test"),
        "id": {"column": "id", "type": "string"},
        "domain": {"lower": 1, "upper": 10},
        "parties": {
            "credit": {
                "role": "label_holder",
                "signing_key": keys[0],
                "label": {"column": "y", "task": "binary"},
            },
            "bank": {"role": "feature_holder", "signing_key": keys[1], "features": features},
        },
    }
    for path, value in changes.items():
        inside: Any = made
        *steps, last = path.split("__")
        for step in steps:
            inside = inside.setdefault(step, {})
        inside[last] = value
    return made


def federation(**changes: Any) -> Federation:
    return parse_federation(data(**changes), "federation.yaml")


INCOME = "parties__bank__features__income"
SIZE = "parties__bank__features__size"
BANK = "federation.parties.bank.features."
KEY = new_signing_key(bytes(32))[1]


#: Of every agreed key with its default. A key that stands at its default is in no document, so a
#: default that changes, as `schemas/federation.schema.json` then shows, needs another `PROTOCOL`.
#: What is not on the list of free ones in `config/agreement.py` is agreed.
DEFAULTS = "76939fbe1e3026d2"


def test_no_default_of_an_agreed_key_changes_unnoticed() -> None:
    schema = json.loads((shipped("schemas") / "federation.schema.json").read_text())
    models = {"Federation": schema, **schema["$defs"]}
    free = {"Party": {"queue"}, "Federation": {"schedule"}}
    free["Scoring"] = {"cron", "cost_ratio", "calibration", "interval", "reasons"}
    known = {
        name: {
            key: entry.get("default")
            for key, entry in model.get("properties", {}).items()
            if key not in free.get(name, ())
        }
        for name, model in models.items()
        if name != "Schedule"
    }
    assert set(FREE) == {
        "schedule",
        *(f"parties.*.{key}" for key in free["Party"]),
        *(f"scoring.{key}" for key in free["Scoring"]),
    }
    assert set(FREE_VERTICAL) <= {f"training.{key}" for key in known["LightGBMTraining"]}
    defaults = json.dumps([PROTOCOL, known], sort_keys=True)
    assert hashlib.sha256(defaults.encode()).hexdigest()[:16] == DEFAULTS


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": {"cron": "0 3 * * *", "timeout_hours": 3}},
        {"parties__bank__queue": "bank"},
        {"training": {"trees": 3, "learning_rate": 0.3, "depth": 2, "tolerance": 0.5}},
        {"training": {"parameters": {"num_leaves": 5}, "early_stopping": 20, "tuning": 30}},
        {"scoring": {"calibration": "platt", "cost_ratio": 4.0, "reasons": 3}},
    ],
)
def test_what_is_free_changes_no_digest(changes: dict[str, Any]) -> None:
    assert digest_of(document(federation(**changes))) == digest_of(document(federation()))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "other"}, "federation.name"),
        ({"id__column": "phone"}, "federation.id.column"),
        ({"id__type": "integer"}, "federation.id.type"),
        ({"domain__upper": 200}, "federation.domain.upper"),
        ({f"{INCOME}__uuid": str(uuid.uuid4())}, BANK + "income.uuid"),
        ({f"{INCOME}__bounds": [0, 101]}, BANK + "income.bounds"),
        ({f"{INCOME}__scale": "log1p"}, BANK + "income.scale"),
        ({f"{INCOME}__missing__fill": 26}, BANK + "income.missing.fill"),
        ({f"{SIZE}__categories": ["m", "s", "l"]}, BANK + "size.categories"),
        ({f"{INCOME}__mechanism__epsilon": 1 - 1e-9}, BANK + "income.mechanism.epsilon"),
        ({"parties__bank__encryption_key": KEY}, "federation.parties.bank.encryption_key"),
        ({"parties__credit__label__column": "z"}, "federation.parties.credit.label.column"),
        ({"training": {"holdout": 0.5}}, "federation.training"),
        ({"training": {"weight_column": "secret_salary"}}, "federation.training"),
        ({"scoring": {"mode": "local"}}, "federation.scoring"),
    ],
)  # fmt: skip
def test_everything_else_is_agreed(changes: dict[str, Any], field: str) -> None:
    before, after = document(federation()), document(federation(**changes))
    assert digest_of(before) != digest_of(after)
    assert field in {path for path, _, _ in differences(before, after)}


def test_in_horizontal_learning_no_training_is_free() -> None:
    first = document(parse_federation(good(), "federation.yaml"))
    for key, value in (("trees", 41), ("depth", 2), ("holdout", 0.3)):
        changed = good()
        changed["training"] = {**changed["training"], key: value}
        assert digest_of(document(parse_federation(changed, "federation.yaml"))) != digest_of(first)


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({f"{INCOME}__missing__fill": 26}, {"income"}),
        ({f"{INCOME}__missing": "forbid"}, {"income"}),
        ({f"{INCOME}__domain": {"lower": 1, "upper": 9}}, {"income"}),
        ({f"{INCOME}__domain": {"lower": 1, "upper": 10}}, set()),
        ({"domain__upper": 12}, {"income"}),
        ({f"{SIZE}__categories": ["m", "s", "l"]}, {"size"}),
        ({"parties__bank__features__kind__categories": ["b", "a"]}, {"kind=a", "kind=b"}),
        ({f"{INCOME}__mechanism": {"name": "grr", "epsilon": 1.0}}, set()),
        ({"id__column": "other"}, set()),
    ],
)
def test_a_changed_map_is_another_digest(changes: dict[str, Any], changed: set[str]) -> None:
    before, after = federation(), federation(**changes)
    old = {column.name: column for column in columns_of(before, "bank")}
    new = {column.name: column for column in columns_of(after, "bank")}
    assert {n for n in new if old[n].map_digest != new[n].map_digest} == changed
    # The gate sees it, too: champions are not compared across such a change.
    assert (maps(before) != maps(after)) is bool(changed)


def test_another_type_of_ids_is_another_digest() -> None:
    before, after = federation(), federation(id__type="integer")
    assert before.id.type != after.id.type
    old, new = (
        {c.name: c.map_digest for c in columns_of(made, "bank")} for made in (before, after)
    )
    assert old.keys() == new.keys() and not set(old.values()) & set(new.values())
