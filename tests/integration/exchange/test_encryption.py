"""Encryption to a receiver: who can open it, and that a retry makes the same bytes."""

import base64
import mmap
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.cli import check, init
from opboost_ops.config.loading import parse_federation
from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.encryption import Envelope, PrivateKey, new_encryption_key, private_key
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import Signer
from tests.federation import Workspace

SECRET, DIGEST, NAME = b"s" * 32, "d" * 64, "table.parquet"


def receiver(seed: bytes = b"r" * 32) -> PrivateKey:
    raw = base64.b64decode(new_encryption_key(seed)[0])
    return PrivateKey(X25519PrivateKey.from_private_bytes(raw))


def envelope(secret: bytes = SECRET, to: PrivateKey | None = None) -> Envelope:
    return Envelope(secret, (to or receiver()).public)


@given(st.binary(max_size=200), st.binary(min_size=32, max_size=32))
@settings(deadline=None)
def test_receiver_and_publisher_open_it_and_a_retry_makes_the_same_bytes(
    content: bytes, secret: bytes
) -> None:
    raw = envelope(secret).encrypt(content, DIGEST, NAME)
    assert raw == envelope(secret).encrypt(content, DIGEST, NAME)
    assert receiver().decrypt(raw, DIGEST, NAME) == content
    assert envelope(secret).decrypt(raw, DIGEST, NAME) == content
    assert len(raw) == len(content) + 60


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    with mmap.mmap(-1, 2**31) as content, pytest.raises(ArtifactError, match="than 2 GiB"):
        envelope().encrypt(content, DIGEST, NAME)  # type: ignore[arg-type]


def test_no_two_files_share_a_key_or_a_nonce() -> None:
    other = receiver(b"q" * 32)
    heads = [
        envelope().encrypt(b"x", DIGEST, NAME)[:44],
        envelope().encrypt(b"x", DIGEST, "document.json")[:44],
        envelope().encrypt(b"x", "e" * 64, NAME)[:44],
        envelope(b"t" * 32).encrypt(b"x", DIGEST, NAME)[:44],
        envelope(to=other).encrypt(b"x", DIGEST, NAME)[:44],
    ]
    assert len({head[:32] for head in heads}) == len({head[32:] for head in heads}) == len(heads)


@pytest.mark.parametrize(
    ("digest", "name"), [("e" * 64, NAME), (DIGEST, "document.json"), (DIGEST, NAME + " ")]
)
def test_it_is_bound_to_artifact_and_file(digest: str, name: str) -> None:
    raw = envelope().encrypt(b"content", DIGEST, NAME)
    for key in (receiver(), envelope()):
        with pytest.raises(Rejected, match="cannot be decrypted") as caught:
            key.decrypt(raw, digest, name)
        assert caught.value.reason == "bad_digest"


def test_nobody_else_opens_it() -> None:
    raw = envelope().encrypt(b"content", DIGEST, NAME)
    for key in (receiver(b"q" * 32), envelope(b"t" * 32), envelope(to=receiver(b"q" * 32))):
        with pytest.raises(Rejected, match="cannot be decrypted"):
            key.decrypt(raw, DIGEST, NAME)


def test_no_byte_of_it_may_change() -> None:
    raw = envelope().encrypt(b"content", DIGEST, NAME)
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 1 << (at % 8)
        # X25519 ignores the last bit of a point; the key derivation does not.
        with pytest.raises(Rejected):
            receiver().decrypt(bytes(changed), DIGEST, NAME)
    for end in (0, 1, 31, 32, 43, 44, 59, len(raw) - 1):
        for key in (receiver(), envelope()):
            with pytest.raises(Rejected):
                key.decrypt(raw[:end], DIGEST, NAME)
    with pytest.raises(Rejected):
        receiver().decrypt(bytes(32) + raw[32:], DIGEST, NAME)


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31)])
def test_a_point_of_small_order_is_no_key(point: bytes) -> None:
    with pytest.raises(ConfigError, match="not an X25519 public key"):
        Envelope(SECRET, base64.b64encode(point).decode())


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "encryption.key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_private_key_from_its_file(tmp_path: Path) -> None:
    private, public = new_encryption_key()
    path = written(tmp_path, private + "\n")
    assert PrivateKey.from_file(path).public == public
    found = private_key(path, public)
    assert found is not None
    assert found.public == public
    assert private_key(tmp_path / "absent", None) is None
    with pytest.raises(ConfigError, match="not the one in the federation file"):
        private_key(path, new_encryption_key()[1])
    with pytest.raises(ConfigError, match="cannot be read"):
        private_key(tmp_path / "absent", public)


def test_keys_init_prints_both_public_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init.init_keys_command(tmp_path)
    first, second = capsys.readouterr().out.splitlines()
    init.show_keys_command(tmp_path)
    assert first in capsys.readouterr().out
    folder = tmp_path / "keys"
    assert first == f"signing_key: {Signer.from_file(folder / 'signing.key').public}"
    assert second == f"encryption_key: {PrivateKey.from_file(folder / 'encryption.key').public}"
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    with pytest.raises(ConfigError, match="nothing was made"):
        init.init_keys_command(tmp_path)
    (folder / "encryption.key").unlink()
    (tmp_path / "site.yaml").write_text("{version: 1, party: bank, store: exchange}\n")
    init.renew_key_command(tmp_path, "encryption")
    again = capsys.readouterr().out.strip()
    assert again == f"encryption_key: {PrivateKey.from_file(folder / 'encryption.key').public}"
    assert again != second


def faults(workspace: Workspace, change: Any) -> set[str]:
    data = workspace.declared.model_dump(mode="json")
    change(data["parties"])
    with pytest.raises(ConfigError) as caught:
        parse_federation(data, "federation.yaml")
    return {f"{fault.where}: {fault.problem}" for fault in caught.value.faults}


def test_keys_in_the_federation_file(trained_once: Workspace) -> None:
    shop = trained_once.declared.parties["shop"]
    place = "parties.bank.encryption_key"
    assert faults(trained_once, lambda p: p["bank"].update(encryption_key=shop.encryption_key)) == {
        f"{place}: is also that of shop"
    }
    assert faults(trained_once, lambda p: p["bank"].update(encryption_key=shop.signing_key)) == {
        f"{place}: is also that of shop"
    }
    assert faults(
        trained_once, lambda p: p["bank"].update(encryption_key=p["bank"]["signing_key"])
    ) == {f"{place}: is also its signing key"}
    (fault,) = faults(trained_once, lambda p: p["bank"].update(signing_key_expires="soon"))
    assert fault.startswith("parties.bank.signing_key_expires: ")


def test_check_names_a_private_key_that_does_not_fit(workspace: Workspace) -> None:
    check.command(workspace.file)
    key = workspace.folder / "bank" / "keys" / "encryption.key"
    key.write_bytes((workspace.folder / "shop" / "keys" / "encryption.key").read_bytes())
    (workspace.folder / "shop" / "keys" / "encryption.key").unlink()
    with pytest.raises(ConfigError) as caught:
        check.command(workspace.file)
    found = {fault.where: fault.problem for fault in caught.value.faults}
    assert "not the one in the federation file" in found["bank/site.yaml:encryption_key"]
    assert "cannot be read" in found["shop/site.yaml:encryption_key"]
