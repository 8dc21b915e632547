"""The file of a party's keys opens with what it was made for, and with nothing else."""

import json
from pathlib import Path

import pytest

from opboost_ops.backup.sealed_keys import (
    PartyKeys,
    keys_of,
    put_back,
    read_keys,
    require_same,
    write_keys,
)
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.encryption import PrivateKey, new_encryption_key
from opboost_ops.exchange.key_files import write_private
from tests.federation import Workspace
from tests.unit.backup.conftest import PASSPHRASE
from tests.unit.cli.conftest import Opboost

KEYS = PartyKeys("bank", {"secret": b"s" * 32, "secret.until-0123": b"o" * 32, "signing_key": b"k"})


def private(folder: Path) -> tuple[PrivateKey, str]:
    half, public = new_encryption_key()
    write_private(folder / "officer.key", half.encode())
    return PrivateKey.from_file(folder / "officer.key"), public


def test_a_passphrase_opens_it(tmp_path: Path) -> None:
    write_keys(KEYS, tmp_path / "k", passphrase=PASSPHRASE)
    raw = (tmp_path / "k").read_bytes()
    assert read_keys(tmp_path / "k", passphrase=PASSPHRASE) == KEYS
    assert (tmp_path / "k").stat().st_mode & 0o077 == 0
    assert not any(content in raw for content in KEYS.files.values() if len(content) > 1)
    with pytest.raises(ConfigError, match="does not open"):
        read_keys(tmp_path / "k", passphrase=PASSPHRASE + "!")
    write_keys(KEYS, tmp_path / "other", passphrase=PASSPHRASE)
    assert (tmp_path / "other").read_bytes() != raw


def test_a_private_key_opens_it(tmp_path: Path) -> None:
    mine, public = private(tmp_path)
    write_keys(KEYS, tmp_path / "k", to=public)
    assert read_keys(tmp_path / "k", private=mine) == KEYS
    other, _ = private(tmp_path / "other")
    with pytest.raises(ConfigError, match="does not open"):
        read_keys(tmp_path / "k", private=other)
    with pytest.raises(ConfigError, match="the private half of the key"):
        read_keys(tmp_path / "k", passphrase=PASSPHRASE)


@pytest.mark.parametrize("field", ["party", "salt", "nonce", "content"])
def test_an_edited_one_does_not_open(tmp_path: Path, field: str) -> None:
    write_keys(KEYS, tmp_path / "k", passphrase=PASSPHRASE)
    data = json.loads((tmp_path / "k").read_text())
    part = data if field == "content" else data["head"]
    was = part[field]
    part[field] = "shop" if field == "party" else ("B" if was[0] == "A" else "A") + was[1:]
    (tmp_path / "k").write_text(json.dumps(data))
    with pytest.raises(ConfigError, match="does not open with this, or was edited"):
        read_keys(tmp_path / "k", passphrase=PASSPHRASE)


def test_what_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("{}")
    for path in (tmp_path / "k", tmp_path / "none"):
        with pytest.raises(ConfigError, match="is no file of a party's keys"):
            read_keys(path, passphrase=PASSPHRASE)
    with pytest.raises(ConfigError, match="fewer than"):
        write_keys(KEYS, tmp_path / "new", passphrase="short")
    with pytest.raises(ConfigError, match="no X25519 public key"):
        write_keys(KEYS, tmp_path / "new", to="bm90IGEga2V5")
    with pytest.raises(ConfigError, match="is there already"):
        write_keys(KEYS, tmp_path / "k", passphrase=PASSPHRASE)
    assert not (tmp_path / "new").exists()


def test_former_secrets_go_along_and_nothing_is_written_over(
    workspace: Workspace, tmp_path: Path, opboost: Opboost
) -> None:
    bank = workspace.folder / "bank"
    opboost("keys", "rotate", bank, "--yes")
    site = load_site(bank / "site.yaml")
    keys = keys_of(site)
    (former,) = (name for name in keys.files if name.startswith("secret.until-"))
    assert set(keys.files) == {
        "secret", former, "signing_key", "encryption_key", "alignment_key"
    }  # fmt: skip
    assert put_back(site, keys) == []
    site.secret.unlink()
    (bank / "keys" / former.replace("secret", "noise.secret")).unlink()
    assert len(put_back(site, keys)) == 2
    assert keys_of(site) == keys
    site.signing_key.write_bytes(b"another")
    with pytest.raises(ConfigError, match=r"signing\.key of bank is another key"):
        require_same(site, keys)


def test_keys_of_another_party_put_nothing_back(
    emptied: Workspace, backup: Path, opboost: Opboost, tmp_path: Path
) -> None:
    write_keys(PartyKeys("shop", {"secret": b"s" * 32}), tmp_path / "k", passphrase=PASSPHRASE)
    (tmp_path / "phrase").write_text(PASSPHRASE)
    error = opboost(
        "restore", emptied.folder / "bank", "--from", backup,
        "--keys-from", tmp_path / "k", "--passphrase-file", tmp_path / "phrase",
    ).error  # fmt: skip
    assert "The keys file is of shop" in error
