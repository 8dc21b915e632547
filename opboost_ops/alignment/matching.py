"""From points to the common rows: what a feature holder lays out, and what the label holder finds.

With one feature holder it lays out the sorted tags of its people, and the answer is positions in
them. With two or more each lays out a table of masked zero shares (`zero_shares`), which gives
away nobody who is not common to all; the answer is look-up tags, which the holder finds at home.
A long layout has parts, by the first bits of the tags: only one is in memory at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.alignment import zero_shares
from opboost_ops.alignment.oprf import require_once
from opboost_ops.alignment.parts import RECORD, Spill, deal
from opboost_ops.alignment.tags import TAG, positions_in, sorting, tags
from opboost_ops.mechanisms.noise import keyed_by

#: Messages and their points, uint8, shape (k, 32), in pieces.
People = Iterable[tuple[Sequence[bytes], np.ndarray]]


@dataclass(frozen=True)
class Layout:
    """What a feature holder lays out for the label holder.

    Attributes:
        content: Sorted tags, or the slots of a table, uint8, shape (k, 16).
        number: Of the hash that a table was built with; 0 for tags.
        people: How many are in it; the canary is one.
    """

    content: np.ndarray
    number: int = 0
    people: int = 0


def layout_size(several: bool, people: int) -> int:
    """How many entries of 16 bytes a part of a layout has.

    Args:
        several: Whether there are two or more feature holders.
        people: How many are in it; the canary is one.
    """
    return zero_shares.slots_for(people) if several else people


def deal_people(
    spill: Spill, people: People, parts: int, pairs: Mapping[str, bytes], salt: bytes
) -> Iterator[np.ndarray]:
    """Deal a feature holder's people into the parts of its layout.

    Args:
        spill: Where they wait for their part to be made.
        people: Messages and their points b H(y), in pieces; the canary is the last.
        parts: How many parts.
        pairs: Its key with each other holder; empty where there is none.
        salt: The run's.

    Yields:
        The look-up tags of each piece, uint8, shape (k, 16).
    """
    row = 0
    for messages, points in people:
        records = _records(messages, points, row, salt)
        if pairs:
            mask = tags("mask", points, messages, salt)
            records["value"] = zero_shares.shares(pairs, messages) ^ mask
            yield tags("look", points, messages, salt)
        deal(spill, records, parts)
        row += len(messages)


def layout_part(spill: Spill, part: int, seed: bytes, several: bool) -> tuple[Layout, np.ndarray]:
    """One part of a layout: sorted tags, or a table of masked zero shares.

    Args:
        spill: Where its people wait.
        part: Its number.
        seed: The holder's of the session.
        several: Whether there are two or more feature holders.

    Returns:
        It, and the rows of its people in the order of their tags, int64.

    Raises:
        ContractError: A row has an ID that another row has.
    """
    records = spill.take(part)
    records = records[sorting(records["key"])]
    keys = np.ascontiguousarray(records["key"])
    require_once(keys)
    if not several:
        return Layout(keys, people=len(keys)), records["row"]
    # A stream of its own: free slots of two parts would be the same otherwise.
    content, number = zero_shares.encode(
        keyed_by(seed, f"psi:part:{part}"), keys, np.ascontiguousarray(records["value"])
    )
    return Layout(content, number, len(keys)), records["row"]


class Match:
    """The label holder's view of its feature holders: 16 bytes for each point that it asked.

    Args:
        asked: How many points it asked, the canary's among them.
        canary: Where in the query that is.
        several: Whether there are two or more feature holders.
        salt: The run's.
    """

    def __init__(self, asked: int, canary: int, several: bool, salt: bytes) -> None:
        self._salt = salt
        self._canary = canary
        self._several = several
        self._total = np.zeros((asked if several else 0, TAG), dtype=np.uint8)
        self._positions = np.full(0 if several else asked, -1, dtype=np.int64)

    def add(
        self, people: People, layouts: Sequence[int], layout: Callable[[int], Layout], spill: Spill
    ) -> Iterator[np.ndarray]:
        """Look for what was asked about in the layout of a holder, part by part.

        Args:
            people: Messages and points b H(x) in the query's order, in pieces.
            layouts: Numbers of the parts of the layout.
            layout: Gives one of them.
            spill: Where people wait for their part to be looked at.

        Yields:
            Where there are several holders, the look-up tags of each piece, shape (k, 16).
        """
        row = 0
        for messages, points in people:
            records = _records(messages, points, row, self._salt)
            if self._several:
                records["value"] = tags("mask", points, messages, self._salt)
                yield tags("look", points, messages, self._salt)
            deal(spill, records, len(layouts))
            row += len(messages)
        begin = 0
        for part in layouts:
            records, content = spill.take(part), layout(part)
            keys, rows = np.ascontiguousarray(records["key"]), records["row"]
            if self._several:
                found = zero_shares.decode(content.content, content.number, keys)
                self._total[rows] ^= found ^ records["value"]
            else:
                at = positions_in(content.content, keys)
                self._positions[rows] = np.where(at < 0, -1, at + begin)
                begin += len(content.content)

    @property
    def agrees(self) -> bool:
        """Whether the canary is common to all: keys and versions agree."""
        return bool(self._is_common()[self._canary])

    def common(self) -> np.ndarray:
        """Where in the query the common people are, int64, shape (c,)."""
        found = np.flatnonzero(self._is_common())
        return np.asarray(found[found != self._canary])

    def positions(self, common: np.ndarray, *, people: bool = False) -> np.ndarray:
        """Positions in the only holder's list, int64, shape (c,), in the order of ``common``.

        Args:
            common: Where in the query they are, shape (c,).
            people: Whether people alone are counted; the canary is in the list, too.
        """
        found = np.asarray(self._positions[common])
        return found - (found > self._positions[self._canary]) if people else found

    def _is_common(self) -> np.ndarray:
        found = ~self._total.any(axis=1) if self._several else self._positions >= 0
        return np.asarray(found)


def _records(messages: Sequence[bytes], points: np.ndarray, row: int, salt: bytes) -> np.ndarray:
    records = np.zeros(len(messages), dtype=RECORD)
    records["key"] = tags("tag", points, messages, salt)
    records["row"] = np.arange(row, row + len(messages))
    return records
