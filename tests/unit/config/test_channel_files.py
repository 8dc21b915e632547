"""A designed channel's file beside the federation file, from there into agreement and noise."""

import json
from typing import Any

import pytest

from opboost_ops.config.agreement import declared, fields, table_digest, table_text
from opboost_ops.config.agreement import document as agreed
from opboost_ops.config.columns import columns_of
from opboost_ops.config.loading import load_federation, parse_federation
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.designed import Table
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.design import design
from tests.federation import FIRST_RUN, Workspace

SECRET = b"a public secret for tests alone."


def table(prior: list[float] | None = None) -> Table:
    found = design(Domain(1, 10), 0.64, 4.0, "absolute", prior)
    assert found is not None
    assert isinstance(found.mechanism.table, Table)
    return found.mechanism.table


def declare(workspace: Workspace, **more: Any) -> None:
    entry = {"name": "designed", "epsilon": 0.64, "most": 4.0, "table": "near.json", **more}
    workspace.edit_yaml(
        "federation.yaml",
        lambda data: data["parties"]["bank"]["features"]["income"].update(mechanism=entry),
    )


def test_a_table_goes_into_plan_and_agreement(fresh: Workspace) -> None:
    """Plans carry the counts; an agreement has their digest, and another table is not agreed."""
    file = fresh.folder / "near.json"
    kept = table()
    file.write_text(table_text(kept, {"epsilon": 0.64}))
    declare(fresh)
    federation = load_federation(fresh.file)
    again = parse_federation(json.loads(json.dumps(federation.model_dump(mode="json"))), "plan")
    assert again == federation
    mechanism = declared(federation)["parties"]["bank"]["features"]["income"]["mechanism"]
    assert mechanism == {
        "name": "designed",
        "epsilon": 0.64,
        "most": 4.0,
        "table": table_digest(kept),
    }
    pinned = agreed(federation)
    assert kept.counts[0][0] not in json.dumps(pinned)
    (income,) = [c for c in columns_of(federation, "bank") if c.name == "income"]
    file.write_text(table_text(table([1, 2, 3, 4, 5, 5, 4, 3, 2, 1]), {}))
    other = load_federation(fresh.file)
    assert fields(pinned, other) == ["parties.bank.features.income.mechanism.table"]
    # And it is another release: the channel's digest is in the declaration.
    (changed,) = [c for c in columns_of(other, "bank") if c.name == "income"]
    digests = [c.mechanism.channel(c.domain).digest() for c in (income, changed)]
    assert digests[0] != digests[1]


def test_a_federation_trains_with_one(fresh: Workspace) -> None:
    """What is released are the table's outputs; card and artifact name it and its exact losses."""
    kept = table()
    (fresh.folder / "near.json").write_text(table_text(kept, {}))
    fresh.edit_yaml(
        "bank/policy.yaml",
        lambda data: data["features"]["income"]["mechanisms"].append("designed"),
    )
    declare(fresh)
    fresh.all()
    released = Home(fresh.home("bank")).table("randomised").column("income").to_pylist()
    assert set(released) == set(kept.outputs)
    version = fresh.folder / "credit" / "models" / "credit_scoring" / FIRST_RUN
    card = json.loads((version / "card.json").read_bytes())
    (income,) = [line for line in card["features"] if line["name"] == "income"]
    assert income["mechanism"] == "Designed, epsilon 0.64, at most 4"
    # A version is whole without the file.
    written = json.loads((version / "federation.json").read_bytes())
    assert parse_federation(written, "federation.json") == load_federation(fresh.file)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("near.json", None, "is missing"),
        ("../near.json", None, "names a file in another folder"),
        ("near.json", "{", "is not a JSON file"),
        ("near.json", "[]", "is not a designed channel in"),
        ("near.json", '{"designed_channel": 2}', "is not a designed channel in"),
        ("near.json", '{"designed_channel": 1, "lower": 1}', "counts were changed"),
        ("near.json", " " * (2 << 20), "is larger than"),
    ],
)
def test_bad_files_are_told_with_all_other_faults(
    fresh: Workspace, name: str, content: str | None, said: str
) -> None:
    if content is not None:
        (fresh.folder / name).write_text(content)
    declare(fresh, table=name)
    fresh.edit_yaml(
        "federation.yaml",
        lambda data: data["parties"]["bank"]["features"]["balance"].update(bounds=[5, 1]),
    )
    with pytest.raises(ConfigError) as caught:
        load_federation(fresh.file)
    faults = {fault.where: fault.problem for fault in caught.value.faults}
    assert said in faults["parties.bank.features.income.mechanism.table"]
    assert "parties.bank.features.balance.bounds" in faults
    assert len(faults) == 2


def test_a_plan_names_no_file(fresh: Workspace) -> None:
    (fresh.folder / "near.json").write_text(table_text(table(), {}))
    declare(fresh)
    data = load_federation(fresh.file).model_dump(mode="json")
    income = data["parties"]["bank"]["features"]["income"]
    income["mechanism"]["table"] = "near.json"
    with pytest.raises(ConfigError, match=r"only federation\.yaml can"):
        parse_federation(data, "plan")
    income["mechanism"] = {"name": "designed", "epsilon": 0.5, "most": 4.0}
    income["mechanism"]["table"] = table().model_dump(mode="json")
    with pytest.raises(ConfigError, match="exceeds the declared loss"):
        parse_federation(data, "plan")
