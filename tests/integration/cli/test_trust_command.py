"""`opboost keys show` and `opboost keys trust`."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from opboost_ops.config.loading import load_policy
from opboost_ops.config.public_keys import fingerprint
from opboost_ops.exchange.signing import new_signing_key
from tests.integration.cli.conftest import Opboost

OLD = new_signing_key(b"o" * 32)[1]
NEW = new_signing_key(b"n" * 32)[1]

WITHOUT = "version: 1\nparty: bank # ours\n"
BLOCK = f"""# Agreed in May.
version: 1
party: bank
receivers:
    # The shop's key, told by phone.
    shop: {{ signing_key: "{OLD}" }}   # fingerprint compared
checks: {{max_missing_share: 0.25}}
features:
    income:
        mechanisms: [global_map]
"""
FLOW = f"version: 1\nparty: bank\nreceivers: {{shop: {{signing_key: {OLD}}}}} # one\n"
EMPTY = "version: 1\nparty: bank\nreceivers: {}\nfeatures: {}\n"
NESTED = f"version: 1\nreceivers:\n  shop:\n    signing_key: {OLD}\nparty: bank\n"
POLICIES = [WITHOUT, WITHOUT.strip(), BLOCK, BLOCK.replace("\n", "\r\n"), FLOW, EMPTY, NESTED]


def site(folder: Path, policy: str) -> Path:
    (folder / "policy.yaml").write_bytes(policy.encode())
    return folder


@pytest.fixture
def party(tmp_path: Path, opboost: Opboost) -> Path:
    (tmp_path / "site.yaml").write_text("version: 1\nparty: bank\nstore: exchange\n")
    opboost("keys", "init", tmp_path)
    return tmp_path


def test_show_prints_what_is_public(party: Path, opboost: Opboost) -> None:
    found = json.loads(opboost("keys", "show", party, "--json").output)
    assert found["party"] == "bank"
    keys = (found["signing_key"], found["encryption_key"])
    assert found["fingerprint"] == fingerprint(*keys)
    assert len({fingerprint(*keys), fingerprint(keys[0], keys[0]), fingerprint(keys[0], None)}) == 3
    output = opboost("keys", "show", party).output
    assert all(f"{name}: {value}\n" in output for name, value in found.items())


def test_show_never_prints_a_secret(party: Path, opboost: Opboost) -> None:
    output = opboost("keys", "show", party).output + opboost("keys", "show", party, "--json").output
    for path in (party / "keys").iterdir():
        raw = path.read_bytes()
        if raw.startswith(b"opboost secret, key schedule "):
            raw = raw.partition(b"\n")[2]
        secret = raw if len(raw) == 32 else base64.b64decode(raw)
        spellings = (secret.hex(), base64.b64encode(secret).decode().rstrip("="), repr(secret))
        assert not any(text in output for text in spellings)


def test_show_without_encryption_key(party: Path, opboost: Opboost) -> None:
    (party / "keys" / "encryption.key").unlink()
    assert "encryption_key" not in opboost("keys", "show", party).output


@pytest.mark.parametrize("name", ["signing.key", "noise.secret"])
def test_show_with_a_key_missing_is_one_error(party: Path, opboost: Opboost, name: str) -> None:
    (party / "keys" / name).unlink()
    done = opboost("keys", "show", party)
    assert name in done.error
    assert done.out == ""


@pytest.mark.parametrize("before", POLICIES)
@pytest.mark.parametrize("name", ["telco", "on"])
def test_trust_adds_and_keeps_all_else(
    tmp_path: Path, opboost: Opboost, before: str, name: str
) -> None:
    folder = site(tmp_path, before)
    assert "is pinned now" in opboost("keys", "trust", folder, name, NEW).output
    after = (folder / "policy.yaml").read_bytes().decode()
    policy = load_policy(folder / "policy.yaml")
    assert policy.receivers[name].signing_key == NEW
    data, expected = yaml.safe_load(after), yaml.safe_load(before)
    expected.setdefault("receivers", {})[name] = {"signing_key": NEW}
    assert data == expected
    kept = iter(after)
    assert all(character in kept for character in before), "something was taken away"


@pytest.mark.parametrize("before", [BLOCK, FLOW, NESTED])
def test_trust_replaces_only_when_told(tmp_path: Path, opboost: Opboost, before: str) -> None:
    folder = site(tmp_path, before)
    path = folder / "policy.yaml"
    assert "different signing key for shop" in opboost("keys", "trust", folder, "shop", NEW).error
    assert path.read_text() == before
    opboost("keys", "trust", folder, "shop", NEW, "--replace")
    assert path.read_text().replace('"', "") == before.replace(OLD, NEW).replace('"', "")
    assert load_policy(path).receivers["shop"].signing_key == NEW


def test_trusting_again_changes_nothing(tmp_path: Path, opboost: Opboost) -> None:
    folder = site(tmp_path, BLOCK)
    before = (folder / "policy.yaml").stat()
    assert "was pinned already" in opboost("keys", "trust", folder, "shop", OLD).output
    assert (folder / "policy.yaml").stat().st_ino == before.st_ino


def test_what_is_no_key_or_no_receiver_is_refused(tmp_path: Path, opboost: Opboost) -> None:
    folder = site(tmp_path, BLOCK)
    for key in ("", "bank", NEW[:-1], NEW + "\n", NEW.replace("=", "A"), "é" * 44, NEW[:42] + "B="):
        assert "not a public key" in opboost("keys", "trust", folder, "telco", key).error
    for name in ("", "Telco", "a: b", "../x", "bank"):
        assert opboost("keys", "trust", folder, name, NEW).error
    assert (folder / "policy.yaml").read_text() == BLOCK


@pytest.mark.parametrize(
    "before",
    [
        "{version: 1, party: bank}\n",
        "version: 1\nparty: bank\n...\n",
        f"version: 1\nparty: bank\nreceivers:\n  a: &r\n    signing_key: {OLD}\n  shop: *r\n",
    ],
    ids=["flow", "ended", "shared"],
)
def test_what_cannot_be_edited_safely_is_left(
    tmp_path: Path, opboost: Opboost, before: str
) -> None:
    folder = site(tmp_path, before)
    error = opboost("keys", "trust", folder, "shop", NEW, "--replace").error
    assert "by hand" in error
    assert NEW in error
    assert (folder / "policy.yaml").read_text() == before


def test_the_file_keeps_its_mode_and_nothing_is_left_behind(
    tmp_path: Path, opboost: Opboost, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = site(tmp_path, BLOCK)
    path = folder / "policy.yaml"
    path.chmod(0o640)
    opboost("keys", "trust", folder, "telco", NEW)
    assert path.stat().st_mode & 0o777 == 0o640
    before = path.read_text()

    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("os.replace", fail)
    assert "it was not changed" in opboost("keys", "trust", folder, "third", NEW).error
    assert path.read_text() == before
    assert [entry.name for entry in folder.iterdir()] == ["policy.yaml"]


def test_a_broken_policy_is_one_error(tmp_path: Path, opboost: Opboost) -> None:
    folder = site(tmp_path, "version: 1\nparty: bank\nfeature: {}\n")
    assert "policy.yaml" in opboost("keys", "trust", folder, "shop", NEW).error
