"""One identity for a column: the one that its party's policy pins, never the plan's."""

import uuid
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.config.loading import parse_federation
from opboost_ops.errors import ConfigError, PolicyError
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.pins import unpinned_columns
from tests.federation import Workspace
from tests.party_state import state_of

FRESH = "6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b33"


def rules(data: Any) -> Any:
    return data["parties"]["bank"]["features"]


def refusal(workspace: Workspace) -> str:
    """Run until the bank refuses, before it opens its table: why, as its own people read it."""
    where, error = workspace.first_failure()
    assert (where, type(error)) == ("bank.check_table", PolicyError)
    theirs = [place for place in workspace.published() if place.endswith("/bank")]
    assert theirs == ["psi_query/bank"]
    return workspace.reason("bank")


def test_a_fresh_uuid_in_the_plan_starts_no_budget_anew(workspace: Workspace) -> None:
    before = _charged(workspace)
    for _ in range(3):
        fresh = str(uuid.uuid4())
        workspace.edit_yaml(
            "federation.yaml", lambda data, u=fresh: rules(data)["income"].update(uuid=u)
        )
        other = Workspace(workspace.folder, uuid.uuid4().hex[:16])
        assert "features.income.uuid: the plan gives another one" in refusal(other)
    assert _charged(workspace) == before


def test_the_uuid_of_another_feature_is_refused(trained_once: Workspace) -> None:
    data = yaml.safe_load(trained_once.file.read_text())
    income, balance = rules(data)["income"], rules(data)["balance"]
    income["uuid"], balance["uuid"] = balance["uuid"], income["uuid"]
    with pytest.raises(PolicyError) as caught:
        require_consent(
            trained_once.policy("bank"), parse_federation(data, "federation.yaml"), "bank"
        )
    told = str(caught.value)
    assert "features.income.uuid: the policy pins that one for balance" in told
    assert "features.balance.uuid: the policy pins that one for income" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda d: d["features"]["income"].update(uuid=d["features"]["balance"]["uuid"]),
            ".uuid: is also that of features.",
        ),
        # Not even where the policy itself would let a column go twice, under two UUIDs.
        (
            lambda d: d["features"].update(wage={"uuid": FRESH, "column": "income"}),
            "features.wage.column: is also the raw column of features.income",
        ),
        (lambda d: d.update(id_column="income"), "id_column: is also the raw column of"),
        (lambda d: d.update(columns={"income": "pay"}), "columns.income: is a feature"),
        (lambda d: d.update(columns={"default": "income"}), "columns.default: is also the raw"),
    ],
)
def test_one_column_under_two_names_is_a_fault_of_the_file(
    workspace: Workspace, change: Callable[[Any], None], told: str
) -> None:
    workspace.edit_yaml("bank/policy.yaml", change)
    with pytest.raises(ConfigError) as caught:
        workspace.policy("bank")
    assert told in str(caught.value)


def test_a_policy_of_the_former_release_is_refused_until_it_pins(workspace: Workspace) -> None:
    workspace.edit_yaml("bank/policy.yaml", _without_uuids)
    told = refusal(workspace)
    declared = rules(yaml.safe_load(workspace.file.read_text()))
    for name, feature in declared.items():
        assert f"features.{name}.uuid" in told
        assert f"uuid: {feature['uuid']}" in told
    assert "opboost agree" in told


def test_a_refused_plan_is_accepted_once_the_columns_are_pinned(workspace: Workspace) -> None:
    declared = workspace.declared
    whole = workspace.policy("bank")
    workspace.edit_yaml("bank/policy.yaml", _without_uuids)
    former = workspace.policy("bank")
    assert unpinned_columns(former, declared) == {
        name: feature.uuid for name, feature in declared.parties["bank"].features.items()
    }
    with pytest.raises(PolicyError):
        require_consent(former, declared, "bank")
    assert unpinned_columns(whole, declared) == {}
    require_consent(whole, declared, "bank")


def test_raw_names_stay_at_home_and_change_nothing_that_leaves(
    trained_once: Workspace, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bank's table has names of its own: what it publishes is the same to the byte."""
    plain, renamed = (trained_once.copy(tmp_path / n, "0" * 15 + "3") for n in ("plain", "renamed"))
    raw = {"income": "EINK_NETTO_17", "balance": "SALDO_9", "customer_id": "KDNR_3"}
    names = {n: r for n, r in raw.items() if n in pl.read_parquet(renamed.table_path("bank"))}
    identity = renamed.declared.id.column
    renamed.edit_table("bank", lambda t: t.rename({**names, identity: "KDNR_3"}))

    def change(data: Any) -> None:
        data["id_column"] = "KDNR_3"
        for name in set(names) - {identity}:
            data["features"][name]["column"] = names[name]

    renamed.edit_yaml("bank/policy.yaml", change)
    told = []
    for workspace in (plain, renamed):
        with monkeypatch.context() as patch:
            workspace.known_to(patch)
            told.append(workspace.all())
    run = f"credit_scoring/{plain.run}"
    for kind in ("psi_answer", "shares", "ranks", "split_values"):
        place = f"{run}/{kind}/bank"
        assert renamed.store.get(place) == plain.store.get(place)
    public = [*renamed.files("exchange").values(), str(told[1]).encode()]
    for name in (*set(names.values()), "KDNR_3"):
        assert not any(name.encode() in content for content in public)


def test_a_missing_raw_column_is_told_by_its_declared_name(workspace: Workspace) -> None:
    workspace.edit_yaml(
        "bank/policy.yaml", lambda data: data["features"]["income"].update(column="EINK_NETTO_17")
    )
    where, error = workspace.first_failure()
    assert where == "bank.check_table"
    assert "has no column income" in str(error)
    assert "EINK_NETTO_17" not in str(error)


def test_two_declared_columns_of_one_raw_column_are_refused(workspace: Workspace) -> None:
    """The plan's ID column cannot be a feature's raw column under the declared name."""
    workspace.edit_yaml(
        "bank/policy.yaml", lambda data: data["features"]["income"].update(column="customer")
    )
    workspace.edit_yaml("federation.yaml", lambda data: data["id"].update(column="customer"))
    for party in ("credit", "bank", "shop"):
        workspace.edit_table(party, lambda t: t.rename({t.columns[0]: "customer"}))
    assert "customer and income are one column of the party's table" in refusal(workspace)


def test_budgets_go_by_the_pinned_column_also_under_another_name(workspace: Workspace) -> None:
    """A feature that both parties rename keeps its account and its rule."""
    from opboost_ops.privacy.statement import forecasts

    workspace.edit_yaml(
        "bank/policy.yaml",
        lambda d: d["features"].update(
            wage={**d["features"].pop("income"), "column": "income", "budget_1": 7.5}
        ),
    )
    policy = workspace.policy("bank")
    with state_of(workspace, "bank") as state:
        found = forecasts(state.ledger.accounts(), policy)
    pinned = policy.features["wage"].uuid
    assert pinned is not None
    assert found[pinned].rule.budget_1 == 7.5


def _without_uuids(data: Any) -> None:
    for rule in data["features"].values():
        rule.pop("uuid", None)


def _charged(workspace: Workspace) -> list[Any]:
    with state_of(workspace, "bank") as state:
        return [r for r in state.ledger.releases() if r.account != "exact"]
