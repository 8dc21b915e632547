"""Zero sharings in an oblivious key-value store: a row opens only if all holders have the person.

Every two of m feature holders share a key s_ij, which gives m blocks per person: one per target.
Z_i[t] is the XOR of block t over all other holders, so the Z_i[t] of all holders cancel, and Z_t[t]
is the XOR of the Z_i[t] of all others. Holder i publishes its shares for all targets but itself,
under masks that take its month key or an answer to a query; its share for itself seals its own row.
One sharing for all targets would be insecure: the label holder and one holder together would know a
second holder's share of every person, compare it with the published ones, and learn the second
holder's members (after Kolesnikov et al., CCS 2017).

The store is a garbled table of three segments: a key's value is the XOR of one slot per segment,
computed by peeling. Free slots come from a keyed stream, so that all slots together are uniform
without the masks. Without masks, a value would be the XOR of three slots in each of two tables, and
tables could be joined.

A long layout has parts, by the first bits of the slots' keys, with one part in memory at a time.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from opboost_ops.exchange.sealed.ids import TAG, hash_each
from opboost_ops.exchange.sealed.oprf import require_once
from opboost_ops.exchange.sealed.parts import (
    by_part,
    number_rows,
    part_count,
    record,
    sorted_parts,
    whole_parts,
)
from opboost_ops.exchange.sealed.sealing import keystream
from opboost_ops.mechanisms.noise import Words, keyed_by
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.parts import scatter

#: Slots per key; in large tables, peeling of three segments succeeds from 1.23 on.
_LOAD = 1.3
#: Additional slots per segment, for small tables.
_SPARE = 24

_SEGMENTS = 3

#: Bytes of a block of shares, enough for four targets.
_BLOCK = 64

#: Maximum attempts; all fail with a probability below 2^-200.
_MOST_SEEDS = 256

#: Messages and their points, uint8, shape (k, 32), in pieces.
People = Iterable[tuple[Sequence[bytes], np.ndarray]]


def pair_key(shared: bytes, session: str) -> bytes:
    """Return the key s_ij of two feature holders in one session.

    Args:
        shared: X25519 of their encryption keys, 32 bytes.
        session: Name of the session, the same at both.
    """
    return keyed_by(shared, f"psi:share:{session}")


def sharings(pairs: Mapping[str, bytes], messages: Sequence[bytes]) -> np.ndarray:
    """Return a holder's shares of zero for every message and target.

    Args:
        pairs: The holder's key with each other holder, 32 bytes each.
        messages: Messages of its people.

    Returns:
        uint8, shape (n, m, 16), with m = 1 + the number of pairs; targets are sorted by name.
    """
    targets = len(pairs) + 1
    width = TAG * targets
    total = np.zeros((len(messages), width), dtype=np.uint8)
    for key in pairs.values():
        for counter, begin in enumerate(range(0, width, _BLOCK)):
            start = hashlib.blake2b(
                bytes([counter]), digest_size=_BLOCK, key=key, person=b"opboost-pair"
            )
            total[:, begin : begin + _BLOCK] ^= hash_each(start, messages)[:, : width - begin]
    return total.reshape(len(messages), targets, TAG)


def slots_for(keys: int) -> int:
    """Return the number of slots of a table, which depends on the number of keys only."""
    return _SEGMENTS * (-(-int(_LOAD * 1000) * keys // (_SEGMENTS * 1000)) + _SPARE)


def encode(seed: bytes, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """Build the table that maps each key to its value.

    Args:
        seed: The holder's seed of the session, from which free slots are derived.
        keys: uint8, shape (n, 16), distinct and pseudorandom.
        values: uint8, shape (n, width), pseudorandom; width a multiple of 8.

    Returns:
        The table, uint8, shape (slots, width), and the number of its hash function.

    Raises:
        ValueError: A key is repeated.
    """
    width = values.shape[1]
    wanted = np.ascontiguousarray(values).view(np.uint64).reshape(-1, width // 8)
    size = slots_for(len(keys))
    for number in range(_MOST_SEEDS):
        places = _places(keys, number, size)
        peeled = _peel(places, size)
        if peeled is None:
            continue
        fill = _stream(keyed_by(seed, "psi:free"), size * width)
        table = fill.view(np.uint64).reshape(size, width // 8).copy()
        # Backwards: when a key's own slot is written, its two other slots are final.
        for rows, own in reversed(peeled):
            three = places[rows]
            total = table[three[:, 0]] ^ table[three[:, 1]] ^ table[three[:, 2]]
            table[own] ^= total ^ wanted[rows]
        return table.view(np.uint8).reshape(size, width), number
    raise ValueError("a key is repeated")


def decode(table: np.ndarray, number: int, keys: np.ndarray) -> np.ndarray:
    """Look up keys in a table: return their values, and noise for other keys.

    Args:
        table: uint8, shape (slots, width).
        number: Number of the table's hash function.
        keys: uint8, shape (n, 16).

    Returns:
        uint8, shape (n, width).
    """
    width = table.shape[1]
    words = np.ascontiguousarray(table).view(np.uint64).reshape(-1, width // 8)
    places = _places(keys, number, len(words))
    values = words[places[:, 0]] ^ words[places[:, 1]] ^ words[places[:, 2]]
    return np.asarray(values.view(np.uint8).reshape(-1, width))


def _places(keys: np.ndarray, number: int, size: int) -> np.ndarray:
    """Return one slot per segment for every key, int64, shape (n, 3)."""
    if not len(keys):
        return np.empty((0, _SEGMENTS), dtype=np.int64)
    # AES with a public key serves as a hash function only; it hides nothing.
    public = hashlib.sha256(b"opboost:psi:slots:%d" % number).digest()[:16]
    encrypt = Cipher(algorithms.AES(public), modes.ECB()).encryptor()  # noqa: S305
    hashes = np.frombuffer(encrypt.update(np.ascontiguousarray(keys).tobytes()), dtype="<u4")
    segment = size // _SEGMENTS
    below = (hashes.reshape(-1, 4)[:, :_SEGMENTS].astype(np.uint64) * np.uint64(segment)) >> 32
    return below.astype(np.int64) + np.arange(_SEGMENTS) * segment


def _peel(places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Assign every key a slot that no key peeled later uses.

    Each round removes all keys that are alone in one of their slots. Two keys of one round never
    use each other's slot, because then neither would be alone there.

    Returns:
        By round, keys and their slots; None if keys remain that are never alone.
    """
    count = np.bincount(places.ravel(), minlength=size)
    # The XOR of the numbers of a slot's keys; with one key left, its number.
    key_xor = np.zeros(size, dtype=np.int64)
    for segment in places.T:
        np.bitwise_xor.at(key_xor, segment, np.arange(len(places)))
    rounds: list[tuple[np.ndarray, np.ndarray]] = []
    left, alone = len(places), np.flatnonzero(count == 1)
    while left:
        if not len(alone):
            return None
        # A key that is alone in several slots gets the first one.
        rows, first = np.unique(key_xor[alone], return_index=True)
        rounds.append((rows, alone[first]))
        left -= len(rows)
        for segment in places[rows].T:
            np.subtract.at(count, segment, 1)
            np.bitwise_xor.at(key_xor, segment, rows)
        # May repeat slots. Ordered by segment, so that a key gets its lowest slot again.
        touched = places[rows].T.ravel()
        alone = touched[count[touched] == 1]
    return rounds


def _stream(key: bytes, size: int) -> np.ndarray:
    # Each stream has its own key, so no block repeats although counters begin at 0.
    return Words(key).take(-(-size // 8)).view(np.uint8)[:size]


@dataclass(frozen=True)
class Layout:
    """A part of the shares that a feature holder publishes.

    Attributes:
        content: The slots of a table, uint8, shape (k, 16 (m - 1)).
        number: Number of the table's hash function.
        people: Number of people in it, including the canary.
    """

    content: np.ndarray
    number: int
    people: int


def layouts(
    scratch: Scratch,
    people: People,
    count: int,
    seed: bytes,
    key: bytes,
    pairs: Mapping[str, bytes],
    own: int,
) -> Iterator[Layout]:
    """Yield a feature holder's layouts, part by part: its masked shares for all other targets.

    Args:
        scratch: Spills people to disk if they exceed its memory limit.
        people: Messages and their points, including the canary.
        count: Number of messages.
        seed: The holder's seed of the run, from which free slots are derived.
        key: The artifact's nonce.
        pairs: The holder's key with each other holder, by name.
        own: The holder's position among all holders, sorted by name.

    Raises:
        ContractError: Two rows have the same ID.
    """
    width = TAG * len(pairs)
    entry = np.dtype([("key", "u1", (TAG,)), ("value", "u1", (width,))])

    def records() -> Iterator[np.ndarray]:
        for messages, points in people:
            stream = keystream(key, "slot", (messages, points, None), TAG + width)
            shares = np.delete(sharings(pairs, messages), own, axis=1)
            batch = np.empty(len(messages), dtype=entry)
            batch["key"] = stream[:, :TAG]
            batch["value"] = shares.reshape(-1, width) ^ stream[:, TAG:]
            yield batch
            release_memory()

    parts = part_count(count)
    pieces = sorted_parts(scratch, records(), count, parts)
    for part, batch in enumerate(whole_parts(pieces, parts, entry)):
        keys = np.ascontiguousarray(batch["key"])
        require_once(keys)
        # A separate stream per part; otherwise two parts would have the same free slots.
        fill = keyed_by(seed, f"psi:part:{part}:{key.hex()}")
        content, number = encode(fill, keys, np.ascontiguousarray(batch["value"]))
        yield Layout(content, number, len(keys))


class Sharings:
    """The zero sharings as the label holder decodes them, by row of its query.

    Args:
        scratch: Spills the sharings to disk if they exceed its memory limit.
        count: Number of queried people, including the canary.
        holders: Number of feature holders, at least two.
    """

    def __init__(self, scratch: Scratch, count: int, holders: int) -> None:
        self._scratch = scratch
        self._count = count
        self._holders = holders
        self._totals = [scratch.zeros(count, ("u1", (TAG,))) for _ in range(holders)]

    def add(
        self, holder: int, people: People, key: bytes, parts: int, part: Callable[[int], Layout]
    ) -> None:
        """Unmask a holder's shares, and add them to those of the others.

        Args:
            holder: The holder's position among all holders, sorted by name.
            people: Messages and points of all queried people, in order.
            key: The nonce of the holder's layout.
            parts: Number of parts of the layout.
            part: Returns a part of the layout.
        """
        width = TAG * (self._holders - 1)
        keystreams = (keystream(key, "slot", (*some, None), TAG + width) for some in people)
        fields = ({"key": each[:, :TAG], "mask": each[:, TAG:]} for each in keystreams)
        records = number_rows(fields, record(self._count, mask=width))

        def decoded_shares() -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
            at, layout = -1, None
            for number, piece in by_part(self._scratch, records, self._count, parts):
                if number != at:
                    at, layout = number, part(number)
                assert layout is not None
                keys = np.ascontiguousarray(piece["key"])
                decoded = decode(layout.content, layout.number, keys)
                yield piece["row"], {"": decoded ^ piece["mask"]}

        kinds = {"": ("u1", (width,))}
        shares = scatter(self._scratch, decoded_shares(), self._count, kinds)[""]
        others = [target for target in range(self._holders) if target != holder]
        for rows in slices(self._count):
            for place, target in enumerate(others):
                self._totals[target][rows] ^= shares[rows, TAG * place : TAG * place + TAG]

    def of(self, target: int) -> np.ndarray:
        """Return the sharing Z of a holder's rows, uint8, shape (count, 16).

        All other holders' shares must have been added. For people whom one of them does not have,
        Z is noise.

        Args:
            target: The holder's position among all holders, sorted by name.
        """
        return self._totals[target]
