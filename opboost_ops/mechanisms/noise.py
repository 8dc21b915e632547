"""Noise is keyed, not drawn: the only source of randomness that protects features.

An unchanged cell gives the same output at every retry and every retraining; a changed cell gets
independent noise. What that promises, and what it discloses, is in ``docs/``.
"""

import base64
import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.errors import ConfigError, ContractError

if TYPE_CHECKING:
    # The declared files are read when DAGs are made: there pyarrow would cost too much.
    import pyarrow as pa

SECRET_BYTES = 32

#: How a file of a secret begins that says its key schedule; without it the schedule is the first.
_STATED = b"opboost secret, key schedule "
_SCHEDULES = (1, 2)

#: Persons at a time, where all of a large table would need much more than their hashes.
_BLOCK = 131_072
_TAGS = {"string": b"s", "integer": b"i"}


class Secret(bytes):
    """Secret bytes, and how keys follow from them.

    Which key schedule it is belongs to the secret and is stated in its file: no column is ever
    drawn under two. What is derived from a secret has its schedule, too.

    Attributes:
        schedule: 1, by a keyed hash an ID, or 2, by AES-CMAC of all IDs at once.
    """

    schedule: int = 1

    @classmethod
    def under(cls, schedule: int, content: bytes) -> "Secret":
        """Secret bytes under a key schedule."""
        found = cls(content)
        found.schedule = schedule
        return found


def secret_file(drawn: bytes) -> bytes:
    """What to write into the file of a new secret.

    Args:
        drawn: 32 fresh random bytes.
    """
    return _stated(_SCHEDULES[-1]) + drawn


def parse_secret(content: bytes) -> Secret | None:
    """The secret that a file's content is; None if it is none.

    Under the second schedule it is derived from the bytes in the file, so that these are another
    secret altogether where what states the schedule is lost.

    Args:
        content: 32 bytes, or what `secret_file` makes.
    """
    for schedule in _SCHEDULES[1:]:
        start = _stated(schedule)
        raw = content.removeprefix(start)
        if content.startswith(start) and len(raw) == SECRET_BYTES:
            return Secret.under(schedule, _derive(raw, b"schedule:%d" % schedule))
    return Secret(content) if len(content) == SECRET_BYTES else None


def _stated(schedule: int) -> bytes:
    return _STATED + b"%d\n" % schedule


def read_secret(path: Path) -> Secret:
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
    secret = parse_secret(content)
    if secret is None and content.startswith(_STATED):
        raise ConfigError(
            f"The secret {path.name} is cut off, or of a key schedule that this version does not "
            "know.",
            "Restore it from its backup, or upgrade.",
        )
    if secret is None:
        raise ConfigError(
            f"The secret {path.name} has {len(content)} bytes instead of {SECRET_BYTES}.",
            "Make one with `opboost keys init`.",
        )
    return secret


def secret_from_text(text: str, where: str) -> Secret:
    """A secret of 32 bytes from its base64.

    Args:
        text: The base64.
        where: Where it was kept, for the error.

    Raises:
        ConfigError: It is anything else.
    """
    secret: Secret | None = None
    with contextlib.suppress(ValueError):
        secret = parse_secret(base64.b64decode(text, validate=True))
    if secret is None:
        raise ConfigError(
            f"{where} holds no base64 of {SECRET_BYTES} bytes.",
            "Set it on this party's workers only, to the base64 of the file that "
            "`opboost keys init` makes.",
        )
    return secret


def fingerprint(secret: bytes) -> str:
    """A name of a secret that does not tell it, 16 hex digits."""
    return _derive(secret, b"fingerprint").hex()[:16]


def receiver_secret(secret: bytes, receiver: str) -> Secret:
    """The secret of all noise towards one receiver, 32 bytes; of the same key schedule."""
    return Secret.under(schedule_of(secret), _derive(secret, b"receiver:" + receiver.encode()))


def schedule_of(secret: bytes) -> int:
    """The key schedule of a secret."""
    return secret.schedule if isinstance(secret, Secret) else 1


def agreement_key(secret: bytes) -> bytes:
    """What seals a party's pinned agreements against changes by hand, 32 bytes."""
    return _derive(secret, b"agreement")


def heads_key(secret: bytes, federation: str, receiver: str) -> bytes:
    """What a party's heads towards one receiver in one federation are made with, 32 bytes."""
    return _derive(secret, f"heads:{federation}/{receiver}".encode())


def run_seed(secret: bytes, federation: str, run: str, session: bytes) -> bytes:
    """What a party's keys of one run follow from, 32 bytes: a retry has the same ones.

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


def uniform_below(key: bytes, number: int, bound: int) -> int:
    """An integer from 0 to a bound - 1, each as likely as any other: bits, and rejection.

    Args:
        key: 32 bytes, of a draw's own; see `keyed_by`.
        number: Which one of the draw, from 0.
        bound: Positive.
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(number.to_bytes(8, "big") + bytes(8)))
    encrypt = stream.encryptor()
    bits = bound.bit_length()
    size = (bits + 7) // 8
    while True:
        found = int.from_bytes(encrypt.update(bytes(size)), "big") >> (8 * size - bits)
        if found < bound:
            return found


def person_keys(
    secret: bytes, ids: "pa.Array | pa.ChunkedArray", id_type: Literal["string", "integer"]
) -> np.ndarray:
    """PRF128(K_id, type-tagged ID) of every row.

    The PRF is that of the secret's key schedule: BLAKE2b with a key, or AES-CMAC.

    Args:
        secret: 32 bytes.
        ids: IDs, shape (n,), without missing values.
        id_type: Their declared type.

    Returns:
        uint8, shape (n, 16).

    Raises:
        ContractError: An ID is missing or not of the declared type.
    """
    key, tag = _derive(secret, b"id"), _TAGS[id_type]
    if schedule_of(secret) > 1:
        from opboost_ops.mechanisms import cmac

        found = cmac.keys_of_ids(key, tag, ids, id_type)
        if found is None:
            raise _no_ids(id_type)
        return found
    base = hashlib.blake2b(tag, digest_size=16, key=key)
    values = ids.to_pylist()
    expected = str if id_type == "string" else int
    if not set(map(type, values)) <= {expected}:
        raise _no_ids(id_type)
    copy = base.copy

    def digest(value: object) -> bytes:
        prf = copy()
        prf.update(str(value).encode())
        return prf.digest()

    return np.frombuffer(b"".join(map(digest, values)), dtype=np.uint8).reshape(-1, 16)


def _no_ids(id_type: str) -> ContractError:
    return ContractError(
        f"The ID column has missing values, or values that are not of type {id_type}.",
        "Give every row an ID of the declared type.",
    )


def cell_words(
    secret: bytes,
    column: UUID,
    context: bytes,
    keys: np.ndarray,
    values: np.ndarray,
    output: int = 0,
) -> np.ndarray:
    """One 64-bit word a cell: AES_{K_col}(person key XOR (domain value, output index, 0)).

    Args:
        secret: The receiver's secret, 32 bytes.
        column: The column's immutable UUID.
        context: Digest of domain map, mechanism and edges.
        keys: Person keys, uint8, shape (n, 16).
        values: Domain values, int64, shape (n,).
        output: Index of the output, for cells that release several.

    Returns:
        uint64, shape (n,).
    """
    key = _derive(secret, b"cell:" + column.bytes + hashlib.sha256(context).digest())
    blocks = np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 2).copy()
    blocks[:, 0] ^= np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    blocks[:, 1] ^= np.uint64(output << 32)
    # ECB on distinct blocks is the block cipher itself, used here as a PRF with random access.
    encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return np.frombuffer(encrypt.update(blocks.tobytes()), dtype=np.uint64)[::2]


def cell_context(secret: bytes, map_digest: bytes, mechanism_digest: bytes) -> bytes:
    """Name of all that keys a column's noise besides its UUID, 32 bytes; it tells nothing."""
    return _derive(secret, b"context:" + hashlib.sha256(map_digest + mechanism_digest).digest())


def person_hashes(secret: bytes, keys: np.ndarray) -> np.ndarray:
    """Keyed 64-bit hashes of persons, for accounts that stay home.

    Args:
        secret: The secret under which the keys were made.
        keys: Person keys, uint8, shape (n, 16).

    Returns:
        uint64, shape (n,).
    """
    encrypt = Cipher(algorithms.AES(_derive(secret, b"hash")), modes.ECB()).encryptor()  # noqa: S305
    hashes = np.empty(len(keys), dtype=np.uint64)
    for begin in range(0, len(keys), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        blocks = encrypt.update(np.ascontiguousarray(keys[rows]).tobytes())
        hashes[rows] = np.frombuffer(blocks, dtype=np.uint64)[::2]
    return hashes


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"opboost:" + purpose).derive(secret)
