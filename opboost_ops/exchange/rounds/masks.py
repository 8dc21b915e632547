"""Secure aggregation without dropouts: masks that cancel in the sum, and the packing of vectors.

Every two parties share a secret (X25519). In each round both derive the same stream of 64-bit
words from it; the party whose name comes first adds it to its vector, the other subtracts it,
modulo 2^64. The streams cancel in the sum over all parties, and any smaller sum is uniform. Of l
parties, up to l - 2 that collude learn the sum of the others and nothing else.

Keys are derived from the party's secret and the run, not from fresh randomness (docs/adr). A retry
derives the same masks, so it must never mask a different vector; `Mailbox` ensures that.
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
    """A party's key for one run.

    Args:
        seed: The 32 bytes of `noise.run_seed`.
    """

    def __init__(self, seed: bytes) -> None:
        raw = HKDF(SHA256(), 32, None, b"opboost:round-key").derive(seed)
        self._key = X25519PrivateKey.from_private_bytes(raw)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def shared(self, other: bytes, party: str) -> bytes:
        """Return the secret shared with another party's key.

        Args:
            other: Public key of the other party, 32 bytes.
            party: Name of the other party, for the error.

        Raises:
            Rejected: It is not a valid key.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:  # A point of small order would make every secret the same.
            pass
        raise Rejected("malformed", f"The key of {party} for this run is not an X25519 key.")


class Masks:
    """One party's masks in one session.

    Args:
        party: Name of the party.
        key: Its key for the run.
        others: Public keys of the other parties, by party.
        session: Digest of federation, run, plan, parties and signed keys.

    Raises:
        ConfigError: There are too few or too many parties.
        Rejected: A key is invalid, or two parties have the same key.
    """

    def __init__(self, party: str, key: RunKey, others: Mapping[str, bytes], session: str) -> None:
        require_parties(len(others) + 1)
        self._session = session.encode()
        self._shared = {
            name: (key.shared(public, name), party < name) for name, public in others.items()
        }
        require_distinct({name: shared for name, (shared, _) in self._shared.items()})

    def pair_key(self, party: str) -> bytes:
        """Return the key that this party shares with another one in this session, 32 bytes.

        Args:
            party: The other party.
        """
        info = b"opboost:pair:" + self._session
        return HKDF(SHA256(), 32, None, info).derive(self._shared[party][0])

    def mask(self, name: str, vector: np.ndarray) -> np.ndarray:
        """Mask a vector.

        Args:
            name: Name of the mask; each mask is for one vector only.
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
    """Reject equal secrets, whose streams could cancel in the party's own vector.

    A party can publish another party's public key as its own without the private key. Secrets are
    compared rather than keys, because several encodings of a key give the same secret.

    Args:
        shared: The secrets that a party shares with each other one.

    Raises:
        Rejected: Two secrets are equal.
    """
    first: dict[bytes, str] = {}
    for name, secret in shared.items():
        other = first.setdefault(secret, name)
        if other != name:
            raise Rejected(
                "malformed", f"{other} and {name} have published the same key: masks would cancel."
            )


def sum_without_masks(vectors: list[np.ndarray]) -> np.ndarray:
    """Return the sum of the vectors of all parties, int64, shape (n,); their masks cancel.

    Args:
        vectors: One vector per party, uint64, shape (n,).
    """
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector
    return total.view(np.int64)


def require_parties(count: int) -> None:
    """Reject a number of parties for which sums are not secure or not supported.

    Raises:
        ConfigError: There are too few or too many parties.
    """
    if not MIN_PARTIES <= count <= MAX_PARTIES:
        raise ConfigError(
            f"Secure aggregation among {count} parties is not possible.",
            f"Declare {MIN_PARTIES} to {MAX_PARTIES} parties: with two, each would learn the "
            "other's vector from the sum.",
        )


def stream(key: bytes, words: int) -> np.ndarray:
    """Return pseudorandom words, uint64, shape (words,).

    Args:
        key: 32 bytes, for one round and one use only.
        words: Number of words.
    """
    # Each round and pair has its own key, so no block repeats although counters begin at 0.
    return Words(key).take(words)


#: Bytes of a word, and the exclusive limit of a sum's absolute value in it.
_WORD, _LIMIT = 8, 1 << 63


class Packing:
    """The byte layout of one round's vectors.

    Args:
        size: Number of integers.
        bounds: Bounds of the absolute sums over all parties; integer i has bound i modulo their
            number. Without bounds each integer takes a whole word.
    """

    def __init__(self, size: int, bounds: Sequence[int] = ()) -> None:
        self.size = size
        self._bounds = np.array(bounds, dtype=np.int64) if bounds else None
        self._widths = [width_of(bound) for bound in bounds] or [_WORD]
        if size % len(self._widths):
            raise ValueError(f"{size} integers are not a multiple of {len(self._widths)} bounds")

    @property
    def length(self) -> int:
        """Number of bytes of a vector."""
        return self.size // len(self._widths) * sum(self._widths)

    def fits(self, vector: np.ndarray, parties: int) -> bool:
        """Return True if sums over all parties stay within their bounds.

        Args:
            vector: One party's integers, int64, shape (size,).
            parties: Number of parties.
        """
        if self._bounds is None:
            return int(np.abs(vector).max(initial=0)) * parties < _LIMIT
        return bool((np.abs(vector.reshape(-1, len(self._bounds))) <= self._bounds).all())

    def packed(self, words: np.ndarray) -> bytes:
        """Return the bytes of a masked vector.

        Args:
            words: uint64, shape (size,).
        """
        table = words.astype("<u8", copy=False).view(np.uint8)
        table = table.reshape(-1, len(self._widths), _WORD)
        parts = [table[:, i, :width] for i, width in enumerate(self._widths)]
        return np.concatenate(parts, axis=1).tobytes()

    def unpacked(self, raw: bytes) -> np.ndarray:
        """Return a masked vector, uint64, shape (size,), each integer modulo its width.

        Args:
            raw: Output of `packed`.
        """
        rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, sum(self._widths))
        table = np.zeros((len(rows), len(self._widths), _WORD), dtype=np.uint8)
        ends = np.cumsum(self._widths)
        for i, (end, width) in enumerate(zip(ends, self._widths, strict=True)):
            table[:, i, :width] = rows[:, end - width : end]
        return table.reshape(-1).view("<u8").astype(np.uint64, copy=False)

    def signed_sum(self, total: np.ndarray) -> np.ndarray:
        """Extend the sign of each unmasked sum from its width to int64.

        Args:
            total: Sum of outputs of `unpacked`, modulo 2^64; int64, shape (size,).
        """
        unused = np.array([8 * (_WORD - width) for width in self._widths], dtype=np.int64)
        table = total.reshape(-1, len(self._widths))
        return ((table << unused) >> unused).ravel()


def width_of(bound: int) -> int:
    """Return the bytes of a signed integer with a given maximum absolute value.

    Args:
        bound: The maximum, below 2^63.
    """
    return -(-(bound.bit_length() + 1) // 8)
