"""Numbers in declared files are numbers: `epsilon: true` was 1.0, and `budget: '3'` was 3."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from opboost_ops.config.documents import parse_yaml, read_yaml
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from tests.federation import Workspace


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for inner in get_args(annotation):
        yield from models(inner)


def kinds(annotation: Any) -> set[Any]:
    inner = {kind for part in get_args(annotation) for kind in kinds(part)}
    return inner or {annotation}


NUMBERS = sorted(
    {
        (model, name)
        for root in (Federation, Site, Policy)
        for model in models(root)
        for name, field in model.model_fields.items()
        if {int, float} & kinds(field.annotation)
    },
    key=lambda pair: (pair[0].__name__, pair[1]),
)


@pytest.mark.parametrize("value", [True, "3", [True, True], ["3", "3"]], ids=str)
def test_nothing_else_is_taken_for_a_number(value: Any) -> None:
    assert len(NUMBERS) > 50
    for model, name in NUMBERS:
        text = str in kinds(model.model_fields[name].annotation)
        with pytest.raises(ValidationError) as caught:
            model.model_validate({name: value, "no such key": 0})
        found = {error["loc"][0] for error in caught.value.errors()}
        assert name in found or (text and value in ("3", ["3", "3"])), (model, name)


def test_one_clear_fault_each(trained_once: Workspace) -> None:
    data = read_yaml(trained_once.file)
    balance = data["parties"]["bank"]["features"]["balance"]
    balance["mechanism"]["epsilon"] = True
    balance["bounds"] = [0, "20000"]
    data["training"] |= {"holdout": "0.2", "trees": 3.5, "tolerance": "1e-3"}
    data["parties"]["shop"]["features"]["payment"]["categories"] = [True, "card"]
    with pytest.raises(ConfigError) as caught:
        parse_federation(data, "federation.yaml")
    told = {fault.where: f"{fault.problem} ({fault.suggestion})" for fault in caught.value.faults}
    place = "parties.bank.features.balance"
    assert told == {
        f"{place}.mechanism.epsilon": "is true or false, where a number is needed ()",
        f"{place}.bounds.1": "is a text, where a number is needed (write it without quotes)",
        "training.holdout": "is a text, where a number is needed (write it without quotes)",
        "training.tolerance": "is a text, where a number is needed (in YAML such a number has a "
        "point and a sign: 1.0e-6)",
        "training.trees": "must be a whole number (without a point)",
        "parties.shop.features.payment.categories.0": "is true or false, where a text is needed "
        "(put it in quotes)",
    }


def test_a_policy(workspace: Workspace) -> None:
    checks, changes = {"max_clipped_share": "0.1", "max_drift": True}, {"budget": "3"}
    workspace.edit_yaml(
        "bank/policy.yaml", lambda p: p.update(checks=checks, features={"balance": changes})
    )
    with pytest.raises(ConfigError) as caught:
        workspace.policy("bank")
    assert {fault.where for fault in caught.value.faults} == {
        "checks.max_clipped_share",
        "checks.max_drift",
        "features.balance.budget",
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.0e-6", 1e-6), ("-2.5E+3", -2500.0), (".5", 0.5), ("1_000", 1000), ("+7", 7), ("0", 0)],
)
def test_what_yaml_takes_for_a_number(text: str, number: float) -> None:
    assert parse_yaml(f"a: {text}", "x.yaml") == {"a": number}


@pytest.mark.parametrize("text", ["010", "1:30", "1:30.5", "0x1F", "1e6", "e5", "1.2.3"])
def test_what_it_does_not(text: str) -> None:
    """By YAML 1.1, 010 is eight and 1:30 is ninety."""
    assert parse_yaml(f"a: {text}", "x.yaml") == {"a": text}
