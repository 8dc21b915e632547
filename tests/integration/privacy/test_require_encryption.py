"""Encryption is not the label holder's choice alone: a policy may require it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.config.loading import parse_federation
from opboost_ops.errors import PolicyError
from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.privacy.consent.compliance import require_consent
from tests.federation import Workspace


def without_key(workspace: Workspace, party: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(workspace.file.read_text())
    del data["parties"][party]["encryption_key"]
    return data


def bank_alone(workspace: Workspace) -> dict[str, Any]:
    """One feature holder, which shares keys with no other one, without an encryption key."""
    data = without_key(workspace, "bank")
    del data["parties"]["shop"]
    return data


def refused(workspace: Workspace, data: dict[str, Any], party: str) -> str:
    federation = parse_federation(data, "federation.yaml")
    policy = workspace.policy(party)
    assert policy.require_encryption
    with pytest.raises(PolicyError) as caught:
        require_consent(policy, federation, party)
    # Who says that it may go plainly, sends it plainly.
    require_consent(policy.model_copy(update={"require_encryption": False}), federation, party)
    return str(caught.value)


def test_a_plan_without_the_receivers_key_is_refused(trained_once: Workspace) -> None:
    told = refused(trained_once, without_key(trained_once, "credit"), "bank")
    assert "require_encryption: the plan has no encryption_key of credit" in told


def test_no_file_of_a_feature_is_published_in_the_clear(workspace: Workspace) -> None:
    workspace.edit_yaml("federation.yaml", lambda d: d["parties"]["credit"].pop("encryption_key"))
    (workspace.folder / "credit" / "keys" / "encryption.key").unlink()
    _, error = workspace.first_failure()
    assert isinstance(error, PolicyError)
    assert not {"shares/bank", "ranks/bank", "ranks/shop"} & set(workspace.published())


def test_a_key_of_a_party_to_which_nothing_is_sent_is_not_asked_for(
    trained_once: Workspace,
) -> None:
    federation = parse_federation(bank_alone(trained_once), "federation.yaml")
    require_consent(trained_once.policy("bank"), federation, "bank")


def test_the_label_holder_asks_for_the_keys_of_all_to_whom_it_sends(
    trained_once: Workspace,
) -> None:
    told = refused(trained_once, bank_alone(trained_once), "credit")
    assert "no encryption_key of bank" in told


def test_a_lender_asks_for_the_keys_of_all_others(tmp_path: Path) -> None:
    workspace = Workspace(write_lenders(tmp_path / "lenders", rows=60, seed=0).parent)
    told = refused(workspace, without_key(workspace, "lender_02"), "lender_01")
    assert "no encryption_key of lender_02" in told
