"""Zero sharings in an oblivious key-value store: only rows of people whom all holders have open.

Every two of m feature holders share a key s_ij, from which m blocks follow for each person: one
for each target. Z_i[t] is the XOR of block t over all other holders, so over all holders the
blocks of a target come twice, and Z_t[t] is the XOR of the Z_i[t] of all others. Holder i stores
its shares for all targets but itself, under masks that only its key of the month, or an answer to
a query, gives; its share for itself seals its own row. One sharing for all targets would not do:
label holder and one holder together would know a second one's share of everybody, compare it
with what is stored, and read the second one's membership alone (after Kolesnikov et al., CCS 2017).

The store is a garbled table of three segments: a key's value is the XOR of one slot in each,
found by peeling. Slots that no key needs come from a keyed stream, so that all of them together
are uniform for anyone who lacks the masks. Without the mask a value would be the XOR of three slots
of one table and of three of another, and tables could be joined with each other.

A long layout has parts, by the first bits of the slots' keys: only one is in memory at a time.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from opboost_ops.exchange.sealed.ids import TAG, hashed
from opboost_ops.exchange.sealed.oprf import require_once
from opboost_ops.exchange.sealed.parts import (
    by_part,
    numbered,
    part_count,
    record,
    rising_parts,
    whole_parts,
)
from opboost_ops.exchange.sealed.sealing import derived
from opboost_ops.mechanisms.noise import Words, keyed_by
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.parts import scatter

#: Slots a key; peeling succeeds with three segments from 1.23 on, in large tables.
_LOAD = 1.3
#: More slots in each segment, for small tables.
_SPARE = 24

_SEGMENTS = 3

#: Bytes of a block of shares: four targets.
_BLOCK = 64

#: Attempts of which all fail once in 2^200 times, and more.
_MOST_SEEDS = 256

#: Messages and their points, uint8, shape (k, 32), in pieces.
People = Iterable[tuple[Sequence[bytes], np.ndarray]]


def pair_key(shared: bytes, session: str) -> bytes:
    """The key r_ij of two feature holders in one session.

    Args:
        shared: X25519 of their encryption keys, 32 bytes.
        session: Names the session, the same at both.
    """
    return keyed_by(shared, f"psi:share:{session}")


def sharings(pairs: Mapping[str, bytes], messages: Sequence[bytes]) -> np.ndarray:
    """A holder's shares of zero for every message, one for each holder as the target.

    Args:
        pairs: Its key with each other holder, 32 bytes each.
        messages: Of its people.

    Returns:
        uint8, shape (n, m, 16), m one more than the pairs: targets in the order of their names.
    """
    targets = len(pairs) + 1
    width = TAG * targets
    total = np.zeros((len(messages), width), dtype=np.uint8)
    for key in pairs.values():
        for counter, begin in enumerate(range(0, width, _BLOCK)):
            start = hashlib.blake2b(
                bytes([counter]), digest_size=_BLOCK, key=key, person=b"opboost-pair"
            )
            total[:, begin : begin + _BLOCK] ^= hashed(start, messages)[:, : width - begin]
    return total.reshape(len(messages), targets, TAG)


def slots_for(keys: int) -> int:
    """How many slots the table of so many keys has: a function of their number alone."""
    return _SEGMENTS * (-(-int(_LOAD * 1000) * keys // (_SEGMENTS * 1000)) + _SPARE)


def encode(seed: bytes, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """The table that gives each key its value.

    Args:
        seed: The holder's of the session; what is free follows from it.
        keys: uint8, shape (n, 16), all different, looking random to everyone.
        values: uint8, shape (n, width), likewise; width a multiple of 8.

    Returns:
        The table, uint8, shape (slots, width), and the number of the hash that it was built with.

    Raises:
        ValueError: A key comes twice.
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
        # Backwards: when a key's own slot is written, its two others are final.
        for rows, own in reversed(peeled):
            three = places[rows]
            total = table[three[:, 0]] ^ table[three[:, 1]] ^ table[three[:, 2]]
            table[own] ^= total ^ wanted[rows]
        return table.view(np.uint8).reshape(size, width), number
    raise ValueError("a key comes twice")


def decode(table: np.ndarray, number: int, keys: np.ndarray) -> np.ndarray:
    """Look up keys in a table: their values, and noise for a key that it does not hold.

    Args:
        table: uint8, shape (slots, width).
        number: Of the hash that it was built with.
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
    """One slot of each segment for every key, int64, shape (n, 3)."""
    if not len(keys):
        return np.empty((0, _SEGMENTS), dtype=np.int64)
    # AES under a public key: nothing is hidden by it, it only spreads.
    public = hashlib.sha256(b"opboost:psi:slots:%d" % number).digest()[:16]
    encrypt = Cipher(algorithms.AES(public), modes.ECB()).encryptor()  # noqa: S305
    drawn = np.frombuffer(encrypt.update(np.ascontiguousarray(keys).tobytes()), dtype="<u4")
    segment = size // _SEGMENTS
    below = (drawn.reshape(-1, 4)[:, :_SEGMENTS].astype(np.uint64) * np.uint64(segment)) >> 32
    return below.astype(np.int64) + np.arange(_SEGMENTS) * segment


def _peel(places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Give every key a slot of its own, that no key peeled later uses.

    Round by round: keys that are alone in one of their slots are taken out, all at once. Two of
    one round never stand in each other's slot, for then neither of them would be alone there.

    Returns:
        By round, keys and their slots; None if some keys hold each other fast.
    """
    count = np.bincount(places.ravel(), minlength=size)
    # The XOR of the numbers of the keys in a slot is the number of the one that is left alone.
    inside = np.zeros(size, dtype=np.int64)
    for segment in places.T:
        np.bitwise_xor.at(inside, segment, np.arange(len(places)))
    rounds: list[tuple[np.ndarray, np.ndarray]] = []
    left, alone = len(places), np.flatnonzero(count == 1)
    while left:
        if not len(alone):
            return None
        # A key that is alone in several slots gets one of them.
        rows, first = np.unique(inside[alone], return_index=True)
        rounds.append((rows, alone[first]))
        left -= len(rows)
        for segment in places[rows].T:
            np.subtract.at(count, segment, 1)
            np.bitwise_xor.at(inside, segment, rows)
        # Some twice. In the order of the segments, so that a key gets its lowest slot again.
        touched = places[rows].T.ravel()
        alone = touched[count[touched] == 1]
    return rounds


def _stream(key: bytes, size: int) -> np.ndarray:
    # A key of its own: the counter begins at 0, and no block comes twice.
    return Words(key).take(-(-size // 8)).view(np.uint8)[:size]


@dataclass(frozen=True)
class Layout:
    """A part of the shares that a feature holder lays out.

    Attributes:
        content: The slots of a table, uint8, shape (k, 16 (m - 1)).
        number: Of the hash that it was built with.
        people: How many are in it; the canary is one.
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
    """A feature holder's layouts, part by part: its masked shares for all other targets.

    Args:
        scratch: Where people wait, if they are more than it holds.
        people: Messages and their points; the canary is among them.
        count: How many they are.
        seed: The holder's of the run: slots that nobody needs follow from it.
        key: The artifact's nonce.
        pairs: The holder's key with each other one, by name.
        own: Its place among all holders by name.

    Raises:
        ContractError: A row has an ID that another row has.
    """
    width = TAG * len(pairs)
    entry = np.dtype([("key", "u1", (TAG,)), ("value", "u1", (width,))])

    def records() -> Iterator[np.ndarray]:
        for messages, points in people:
            bytes_of = derived(key, "slot", (messages, points, None), TAG + width)
            shares = np.delete(sharings(pairs, messages), own, axis=1)
            batch = np.empty(len(messages), dtype=entry)
            batch["key"] = bytes_of[:, :TAG]
            batch["value"] = shares.reshape(-1, width) ^ bytes_of[:, TAG:]
            yield batch
            release_memory()

    parts = part_count(count)
    pieces = rising_parts(scratch, records(), count, parts)
    for part, batch in enumerate(whole_parts(pieces, parts, entry)):
        keys = np.ascontiguousarray(batch["key"])
        require_once(keys)
        # A stream of its own: free slots of two parts would be the same otherwise.
        fill = keyed_by(seed, f"psi:part:{part}:{key.hex()}")
        content, number = encode(fill, keys, np.ascontiguousarray(batch["value"]))
        yield Layout(content, number, len(keys))


class Sharings:
    """The label holder's view of the zero sharings, by the rows of its own query.

    Args:
        scratch: Where it is, if it is more than that holds.
        count: How many people were asked about, the canary among them.
        holders: How many feature holders there are, at least two.
    """

    def __init__(self, scratch: Scratch, count: int, holders: int) -> None:
        self._scratch = scratch
        self._count = count
        self._holders = holders
        self._totals = [scratch.zeros(count, ("u1", (TAG,))) for _ in range(holders)]

    def add(
        self, holder: int, people: People, key: bytes, parts: int, part: Callable[[int], Layout]
    ) -> None:
        """Take away the masks of a holder's shares, and add these to those of the others.

        Args:
            holder: Its place among all holders by name.
            people: Messages and points of all that were asked about, in their order.
            key: The nonce of its layout.
            parts: How many parts that has.
            part: Gives one.
        """
        width = TAG * (self._holders - 1)
        keystreams = (derived(key, "slot", (*some, None), TAG + width) for some in people)
        fields = ({"key": each[:, :TAG], "mask": each[:, TAG:]} for each in keystreams)
        records = numbered(fields, record(self._count, mask=width))

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
        """Z of a holder's own rows, once all others' shares were added, uint8, shape (count, 16).

        Of a person whom one of them does not have it is noise.

        Args:
            target: Its place among all holders by name.
        """
        return self._totals[target]
