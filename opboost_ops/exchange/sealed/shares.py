"""Shares as they are laid out by a feature holder, and what the label holder makes of all of them.

A long layout has parts, by the first bits of the slots' keys: only one is in memory at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.exchange.sealed import zero_shares
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
from opboost_ops.exchange.sealed.tags import TAG
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.parts import scatter

#: Messages and their points, uint8, shape (k, 32), in pieces.
People = Iterable[tuple[Sequence[bytes], np.ndarray]]


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
            shares = np.delete(zero_shares.sharings(pairs, messages), own, axis=1)
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
        content, number = zero_shares.encode(fill, keys, np.ascontiguousarray(batch["value"]))
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
                decoded = zero_shares.decode(layout.content, layout.number, keys)
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
