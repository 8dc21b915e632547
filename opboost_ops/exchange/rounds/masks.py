"""Masks that cancel in the sum, and a masked vector's bytes: secure aggregation without dropouts.

Every two parties share a secret (X25519). In each round both make the same stream of 64-bit words
from it; the one whose name comes first adds it to its vector, the other takes it away, modulo
2^64. Over all parties the streams cancel, and fewer than all of them see uniform words: up to
l - 2 parties that pool what they know learn the sum of the others and nothing else.

Keys come from the party's secret and the run, not from fresh randomness (docs/adr): a retry makes
the same masks, and so must never be asked to mask another vector. `Mailbox` sees to it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.config.faults.federation import MAX_PARTIES, MIN_PARTIES
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.mechanisms.noise import Words


class RunKey:
    """A party's key of one run.

    Args:
        seed: The 32 bytes of `noise.run_seed`.
    """

    def __init__(self, seed: bytes) -> None:
        raw = HKDF(SHA256(), 32, None, b"opboost:round-key").derive(seed)
        self._key = X25519PrivateKey.from_private_bytes(raw)

    @property
    def public(self) -> bytes:
        """Its public half, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def shared(self, other: bytes, party: str) -> bytes:
        """The secret that it shares with another party's key.

        Args:
            other: That key, 32 bytes.
            party: Whose it is, for the error.

        Raises:
            Rejected: It is no key.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:  # A point of small order would make every secret the same.
            pass
        raise Rejected("malformed", f"The key of {party} for this run is not an X25519 key.")


class Masks:
    """One party's masks in one session.

    Args:
        party: Whose.
        key: Its key of the run.
        others: The others' public keys, by party.
        session: Digest of federation, run, plan, parties and signed keys.

    Raises:
        ConfigError: There are too few or too many parties.
        Rejected: A key is none, or two parties have one key.
    """

    def __init__(self, party: str, key: RunKey, others: Mapping[str, bytes], session: str) -> None:
        require_parties(len(others) + 1)
        self._session = session.encode()
        self._shared = {
            name: (key.shared(public, name), party < name) for name, public in others.items()
        }
        require_distinct({name: shared for name, (shared, _) in self._shared.items()})

    def pair_key(self, party: str) -> bytes:
        """A key that this party shares with another one in this session alone, 32 bytes.

        Args:
            party: The other one.
        """
        info = b"opboost:pair:" + self._session
        return HKDF(SHA256(), 32, None, info).derive(self._shared[party][0])

    def mask(self, name: str, vector: np.ndarray) -> np.ndarray:
        """A vector under a mask.

        Args:
            name: The mask's; one mask is for one vector only.
            vector: int64, shape (n,).

        Returns:
            uint64, shape (n,).
        """
        masked = vector.astype(np.int64).view(np.uint64).copy()
        for shared, first in self._shared.values():
            info = b"opboost:mask:" + self._session + b":" + name.encode()
            words = stream(HKDF(SHA256(), 32, None, info).derive(shared), masked.size)
            if first:
                masked += words
            else:
                masked -= words
        return masked


def require_distinct(shared: Mapping[str, bytes]) -> None:
    """Refuse two secrets that are one: their streams could cancel in a party's own vector.

    Who publishes another party's key as its own needs no private half for that. Secrets are
    compared and not keys, since several encodings of a key give one secret.

    Args:
        shared: What a party shares with each other one.

    Raises:
        Rejected: Two are equal.
    """
    first: dict[bytes, str] = {}
    for name, secret in shared.items():
        other = first.setdefault(secret, name)
        if other != name:
            raise Rejected(
                "malformed", f"{other} and {name} have published one key: masks would cancel."
            )


def unmasked(vectors: list[np.ndarray]) -> np.ndarray:
    """The sum of the vectors of all parties, int64, shape (n,); their masks cancel.

    Args:
        vectors: One a party, uint64, shape (n,).
    """
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector
    return total.view(np.int64)


def require_parties(count: int) -> None:
    """Refuse to add up for too few or too many.

    Raises:
        ConfigError: There are too few or too many parties.
    """
    if not MIN_PARTIES <= count <= MAX_PARTIES:
        raise ConfigError(
            f"Secure aggregation among {count} parties is not possible.",
            f"It takes {MIN_PARTIES} to {MAX_PARTIES}: with two, each would learn the other's "
            "vector from the sum.",
        )


def stream(key: bytes, words: int) -> np.ndarray:
    """Words that nobody tells from uniform ones without the key, uint64, shape (words,).

    Args:
        key: 32 bytes, of one round and one use.
        words: How many.
    """
    # A key for each round and pair: the counter begins at 0, and no block comes twice.
    return Words(key).take(words)


#: Bytes of a word, and up to where it holds a sum with its sign.
_WORD, _LIMIT = 8, 1 << 63


class Packing:
    """How the integers of one round's vectors lie in bytes.

    Args:
        size: How many integers.
        bounds: Of the absolute sums of all parties, for integers in turn; whole words without any.
    """

    def __init__(self, size: int, bounds: Sequence[int] = ()) -> None:
        self.size = size
        self._bounds = np.array(bounds, dtype=np.int64) if bounds else None
        self._widths = [width_of(bound) for bound in bounds] or [_WORD]
        if size % len(self._widths):
            raise ValueError(f"{size} integers are not of {len(self._widths)} in turn")

    @property
    def length(self) -> int:
        """Bytes of a vector."""
        return self.size // len(self._widths) * sum(self._widths)

    def fits(self, vector: np.ndarray, parties: int) -> bool:
        """True if a party's integers are such that the sums are within their bounds.

        Args:
            vector: int64, shape (size,).
            parties: How many add up.
        """
        if self._bounds is None:
            return int(np.abs(vector).max(initial=0)) * parties < _LIMIT
        return bool((np.abs(vector.reshape(-1, len(self._bounds))) <= self._bounds).all())

    def packed(self, words: np.ndarray) -> bytes:
        """A masked vector's bytes.

        Args:
            words: uint64, shape (size,).
        """
        table = words.astype("<u8", copy=False).view(np.uint8)
        table = table.reshape(-1, len(self._widths), _WORD)
        parts = [table[:, i, :width] for i, width in enumerate(self._widths)]
        return np.concatenate(parts, axis=1).tobytes()

    def unpacked(self, raw: bytes) -> np.ndarray:
        """A masked vector, modulo what its integers' bytes hold; uint64, shape (size,).

        Args:
            raw: As `packed` gives it.
        """
        rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, sum(self._widths))
        table = np.zeros((len(rows), len(self._widths), _WORD), dtype=np.uint8)
        ends = np.cumsum(self._widths)
        for i, (end, width) in enumerate(zip(ends, self._widths, strict=True)):
            table[:, i, :width] = rows[:, end - width : end]
        return table.reshape(-1).view("<u8").astype(np.uint64, copy=False)

    def summed(self, total: np.ndarray) -> np.ndarray:
        """A sum whose masks are gone, with its sign.

        Args:
            total: Of what `unpacked` gives, modulo 2^64; int64, shape (size,).
        """
        unused = np.array([8 * (_WORD - width) for width in self._widths], dtype=np.int64)
        table = total.reshape(-1, len(self._widths))
        return ((table << unused) >> unused).ravel()


def width_of(bound: int) -> int:
    """Bytes that hold every integer up to a bound, with its sign.

    Args:
        bound: Below 2^63.
    """
    return -(-(bound.bit_length() + 1) // 8)
