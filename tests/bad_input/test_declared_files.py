"""Federation, site and policy files that are wrong."""

from typing import Any

import pytest

from opboost_ops.errors import ConfigError
from tests.bad_input.faults import ASKED, SEALED_BY_BANK, message_is_right, refused
from tests.federation import Workspace


def bank(data: Any) -> Any:
    return data["parties"]["bank"]


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
