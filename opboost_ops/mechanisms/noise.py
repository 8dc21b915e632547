"""Randomness that protects features: a generator keyed by the operating system for each draw.

Its key is thrown away with it, so no secret opens what was drawn. A public seed makes draws
predictable, for experiments alone. Keys for seals, nonces and hashes of IDs follow from a party's
secret by `keyed_by`.
"""

import base64
import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    # The declared files are read when DAGs are made: there pyarrow would cost too much.
    import pyarrow as pa

SECRET_BYTES = 32

_TAGS = {"string": b"s", "integer": b"i"}


class Words:
    """A stream of uniform 64-bit words: AES-256-CTR under a key of its own.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    @classmethod
    def fresh(cls) -> "Words":
        """A stream under a key from the operating system, which nobody keeps."""
        return cls(os.urandom(32))  # noqa: TID251

    @classmethod
    def seeded(cls, seed: bytes, place: str) -> "Words":
        """A predictable stream, for experiments.

        Args:
            seed: Public.
            place: Of the draw; another one has another stream.
        """
        return cls(_derive(seed, b"seeded:" + hashlib.sha256(place.encode()).digest()))

    def take(self, count: int) -> np.ndarray:
        """The next words, uint64, shape (count,)."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype=np.uint64)

    def below(self, bound: int) -> int:
        """The next integer from 0 to a bound - 1, each equally likely: bits, and rejection.

        Args:
            bound: Positive.
        """
        bits = bound.bit_length()
        size = (bits + 7) // 8
        while True:
            number = int.from_bytes(self._stream.update(bytes(size)), "big") >> (8 * size - bits)
            if number < bound:
                return number


def read_secret(path: Path) -> bytes:
    """A secret of 32 bytes.

    Raises:
        ConfigError: The file is missing, of another size, or readable by others.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(
                f"The secret {path.name} can be read by others.",
                "Make it readable by its owner alone (chmod 600).",
            )
        content = path.read_bytes()
    except OSError:
        content = None
    if content is None:
        raise ConfigError(
            f"The secret {path.name} cannot be read.", "Make one with `opboost keys init`."
        )
    if len(content) != SECRET_BYTES:
        raise ConfigError(
            f"The secret {path.name} has {len(content)} bytes instead of {SECRET_BYTES}.",
            "Make one with `opboost keys init`.",
        )
    return content


def secret_from_text(text: str, where: str) -> bytes:
    """A secret of 32 bytes from its base64.

    Args:
        text: The base64.
        where: Where it was kept, for the error.

    Raises:
        ConfigError: It is anything else.
    """
    secret = b""
    with contextlib.suppress(ValueError):
        secret = base64.b64decode(text, validate=True)
    if len(secret) != SECRET_BYTES:
        raise ConfigError(
            f"{where} holds no base64 of {SECRET_BYTES} bytes.",
            "Set it on this party's workers only, to the base64 of the file that "
            "`opboost keys init` makes.",
        )
    return secret


def fingerprint(secret: bytes) -> str:
    """A name of a secret that does not tell it, 16 hex digits."""
    return _derive(secret, b"fingerprint").hex()[:16]


def heads_key(secret: bytes, federation: str, receiver: str) -> bytes:
    """The key of a party's heads towards one receiver in one federation, 32 bytes."""
    return _derive(secret, f"heads:{federation}/{receiver}".encode())


def run_seed(secret: bytes, federation: str, run: str, session: bytes) -> bytes:
    """The seed of a party's keys of one run, 32 bytes: a retry has the same ones.

    Args:
        secret: The party's, 32 bytes.
        federation: Its name.
        run: The run's id.
        session: What was drawn when the run's rounds began: another session of the same run has
            other keys.
    """
    return _derive(secret, f"run:{federation}/{run}:".encode() + session)


def keyed_by(seed: bytes, purpose: str) -> bytes:
    """A key for one purpose, 32 bytes.

    Args:
        seed: What it follows from, such as a run's seed.
        purpose: What it is for; no other key is for the same.
    """
    return _derive(seed, purpose.encode())


def person_keys(
    secret: bytes, ids: "pa.Array | pa.ChunkedArray", id_type: Literal["string", "integer"]
) -> np.ndarray:
    """Keyed 128-bit hashes of IDs: AES-CMAC of each type-tagged ID.

    Args:
        secret: 32 bytes.
        ids: IDs, shape (n,), without missing values.
        id_type: Their declared type.

    Returns:
        uint8, shape (n, 16).

    Raises:
        ContractError: An ID is missing or not of the declared type.
    """
    from opboost_ops.mechanisms import cmac

    keys = cmac.keys_of_ids(_derive(secret, b"id"), _TAGS[id_type], ids, id_type)
    if keys is None:
        raise ContractError(
            f"The ID column has missing values, or values that are not of type {id_type}.",
            "Give every row an ID of the declared type.",
        )
    return keys


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"opboost:" + purpose).derive(secret)
