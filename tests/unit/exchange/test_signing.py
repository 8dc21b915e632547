"""Signing keys and signatures."""

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.signing import Signer, new_signing_key, signed_by


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "signing.key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_signing_and_who_signed(tmp_path: Path) -> None:
    private, public = new_signing_key()
    signer = Signer.from_file(written(tmp_path, private + "\n"))
    assert signer.public == public
    signature = signer.sign(b"message")
    assert signature == signer.sign(b"message")
    assert signed_by(public, b"message", signature)
    assert not signed_by(public, b"messagE", signature)
    assert not signed_by(public, b"message", bytes([signature[0] ^ 1]) + signature[1:])
    assert not signed_by(public, b"message", b"")
    for key in ("", "A" * 43 + "=", "not base64"):
        assert not signed_by(key, b"message", signature)


@given(st.integers(0, 511))
@settings(max_examples=100)
def test_no_bit_of_a_signature_may_change(bit: int) -> None:
    private, public = new_signing_key(b"s" * 32)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(private))
    signature = bytearray(Signer(key).sign(b"message"))
    signature[bit // 8] ^= 1 << (bit % 8)
    assert not signed_by(public, b"message", bytes(signature))


@pytest.mark.parametrize("text", ["", "no base64 !", base64.b64encode(b"short").decode()])
def test_a_file_that_is_no_key_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="opboost keys init") as caught:
        Signer.from_file(written(tmp_path, text))
    assert not text or text not in str(caught.value)
