"""Federation, site and policy files that are wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError, PolicyError
from tests.bad_input.faults import ASKED, SEALED_BY_BANK, message_is_right, refused
from tests.federation import Workspace


def bank(data: Any) -> Any:
    return data["parties"]["bank"]


def of_form(data: Any) -> None:
    features = bank(data)["features"]
    data["domain"] = {"lower": 10, "upper": 1}
    features["debt_ratio"]["bonds"] = [0, 1]
    features["debt_ratio"]["mechanism"]["epsilon"] = 0
    features["overdrafts"]["mechanism"]["epsilon"] = float("nan")


def of_rules(data: Any) -> None:
    features, credit = bank(data)["features"], data["parties"]["credit"]
    features["overdrafts"]["bounds"] = [1, 1]
    features["balance"].pop("bounds")
    features["balance"].pop("mechanism")
    features["debt_ratio"]["uuid"] = features["balance"]["uuid"]
    bank(data)["signing_key"] = data["parties"]["shop"]["signing_key"]
    features["id"] = features.pop("income")
    credit["label"]["column"] = "age"


def two_label_holders(data: Any) -> None:
    bank(data).update(role="label_holder", label={"column": "x", "task": "binary"})


BROKEN: dict[Callable[[Any], Any], tuple[str, ...]] = {
    of_form: (
        "domain: lower must be less than upper",
        "parties.bank.features.debt_ratio.bonds: is not a known key (did you mean bounds?)",
        "parties.bank.features.debt_ratio.mechanism.epsilon",
        "parties.bank.features.overdrafts.mechanism.epsilon",
    ),
    of_rules: (
        "parties.bank.features.overdrafts.bounds",
        "parties.bank.features.balance.bounds: is required",
        "parties.bank.features.balance.mechanism: is required",
        "parties.bank.features.debt_ratio.uuid: is also that of",
        "parties.bank.signing_key: is also that of shop",
        "parties.bank.features.id: is the ID column",
        "parties.credit.features.age: is the label",
    ),
    two_label_holders: ("parties: has 2 label holders",),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_federation_file(workspace: Workspace, change: Callable[[Any], Any]) -> None:
    workspace.edit_yaml("federation.yaml", change)
    _refused_when_opened(workspace, "federation.yaml", *BROKEN[change])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("version: 1\nname: [", "is not valid YAML"),
        ("", "no mapping"),
        ("- a\n- b\n", "no mapping"),
        ("\x00\x01", "is not valid YAML"),
        ("version: 2\n", "version"),
    ],
)
def test_a_file_that_is_no_federation(workspace: Workspace, content: str, expected: str) -> None:
    workspace.file.write_text(content)
    _refused_when_opened(workspace, "federation.yaml", expected)


def test_a_file_that_is_not_there(workspace: Workspace) -> None:
    workspace.file.unlink()
    _refused_when_opened(workspace, "federation.yaml", "cannot be read")


def _refused_when_opened(workspace: Workspace, *words: str) -> None:
    before = workspace.files("exchange"), workspace.files("credit", "models")
    with pytest.raises(ConfigError) as caught:
        workspace.open()
    message_is_right(caught.value, *words)
    assert (workspace.files("exchange"), workspace.files("credit", "models")) == before


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ({"epsilon": -1}, "epsilon"),
        ({"trees": 0}, "training.trees"),
        ({"learning_rate": 3}, "training.learning_rate"),
        ({"depth": 99}, "training.depth"),
        ({"deepth": 3}, "deepth"),
    ],
)
def test_a_wrong_form(workspace: Workspace, form: dict[str, Any], word: str) -> None:
    before = workspace.files("exchange")
    with pytest.raises(ConfigError, match=word):
        workspace.open(form)
    assert workspace.files("exchange") == before


def test_no_site_is_known(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = workspace.environment()
    del sites["OPBOOST_SITE_BANK"]
    monkeypatch.setattr(workspace, "environment", lambda: sites)
    monkeypatch.delenv("OPBOOST_SITE_BANK")
    refused(
        workspace,
        "bank.check_table",
        ConfigError,
        "OPBOOST_SITE_BANK",
        "Set it",
        published=ASKED,
    )


def test_the_site_of_another_party(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = workspace.environment()
    sites |= {"OPBOOST_SITE_BANK": sites["OPBOOST_SITE_SHOP"]}
    monkeypatch.setattr(workspace, "environment", lambda: sites)
    refused(
        workspace,
        "bank.check_table",
        ConfigError,
        "of shop, not of bank",
        published=ASKED,
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda p: p["features"].pop("balance"), "balance"),
        (lambda p: p["features"]["balance"].update(mechanisms=["local_map"]), "global_map"),
    ],
)
def test_a_policy_that_forbids(
    workspace: Workspace, change: Callable[[Any], Any], word: str
) -> None:
    workspace.edit_yaml("bank/policy.yaml", change)
    failed, error = workspace.first_failure()
    assert failed == "bank.check_table"
    assert isinstance(error, PolicyError)
    message_is_right(error, "bank", "releases nothing more of this run")
    # What the policy says is read at home, and nowhere else.
    assert word in workspace.reason("bank") and word not in str(error)
    assert not SEALED_BY_BANK & set(workspace.published())


def test_a_policy_without_this_receiver(workspace: Workspace) -> None:
    workspace.edit_yaml("bank/policy.yaml", lambda p: p.update(receivers={}))
    refused(
        workspace,
        "bank.check_table",
        PolicyError,
        "bank",
        "credit",
        published=ASKED,
    )


def test_a_policy_that_pins_another_key(workspace: Workspace) -> None:
    other = workspace.declared.parties["shop"].signing_key
    workspace.declare("bank/policy.yaml", receivers={"credit": {"signing_key": other}})
    failed, error = workspace.first_failure()
    assert failed == "bank.check_table"
    message_is_right(error, "signature", "plan")


def test_a_signing_key_that_is_not_the_declared_one(workspace: Workspace) -> None:
    key = workspace.folder / "bank" / "keys" / "signing.key"
    key.write_bytes((workspace.folder / "shop" / "keys" / "signing.key").read_bytes())
    refused(
        workspace,
        "bank.check_table",
        ConfigError,
        "bank",
        "signing key",
        published=ASKED,
    )


def test_a_seeded_secret_in_a_lasting_store(workspace: Workspace) -> None:
    (workspace.folder / "exchange" / ".throwaway").unlink()
    with pytest.raises(ConfigError, match="public seed"):
        workspace.open()
    assert workspace.published() == []


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("noise.secret", 0o604),
        ("psi/*.key", 0o640),
        ("signing.key", 0o644),
        ("encryption.key", 0o660),
    ],
)
def test_a_secret_that_others_can_read(workspace: Workspace, name: str, mode: int) -> None:
    (path,) = (workspace.folder / "bank" / "keys").glob(name)
    path.chmod(mode)
    failed, error = workspace.first_failure()
    assert failed.startswith("bank.")
    assert isinstance(error, ConfigError)
    message_is_right(error, path.name, "chmod 600")
    assert not SEALED_BY_BANK & set(workspace.published())


@pytest.mark.parametrize("name", ["score", "coverage", "probability_yes"])
def test_an_id_that_is_called_as_a_column_of_scores(workspace: Workspace, name: str) -> None:
    workspace.edit_yaml("federation.yaml", lambda d: d["id"].update(column=name), agree=False)
    with pytest.raises(ConfigError, match="id_column"):
        load_federation(workspace.file)
