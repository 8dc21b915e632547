"""From points to the common rows: what a feature holder lays out, and what the label holder finds.

With one feature holder it lays out the sorted tags of its people, and the answer is positions in
them. With two or more each lays out a table of masked zero shares (`zero_shares`), which gives
away nobody who is not common to all; the answer is look-up tags, which the holder finds at home.
A long layout has parts, by the first bits of the tags: only one is in memory at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

import numpy as np

from opboost_ops.alignment import zero_shares
from opboost_ops.alignment.oprf import require_once
from opboost_ops.alignment.parts import part_count, record, rising_parts, whole_parts
from opboost_ops.alignment.tags import TAG, positions_in, tags
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.scratch.arrays import Scratch, let_go, slices
from opboost_ops.scratch.parts import gathered, scattered

#: Look-up tags, or what is unmasked.
_TAGS = np.dtype(("u1", (TAG,)))

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


def layouts(
    scratch: Scratch,
    people: People,
    count: int,
    seed: bytes,
    pairs: Mapping[str, bytes],
    salt: bytes,
    looks: np.ndarray | None,
) -> Iterator[tuple[Layout, np.ndarray]]:
    """What a feature holder lays out, part by part: sorted tags, or tables of masked zero shares.

    Args:
        scratch: Where people wait, if they are more than it holds.
        people: Messages and their points b H(y), in pieces; the canary is the last.
        count: How many they are.
        seed: The holder's of the session.
        pairs: Its key with each other holder; empty where there is none.
        salt: The run's.
        looks: Filled with the look-up tag of each row, uint8, shape (count, 16); absent where
            there is no other holder.

    Yields:
        A part, and the rows of its people in the order of their tags, integers.

    Raises:
        ContractError: A row has an ID that another row has.
    """
    kind, parts = record(count, valued=looks is not None), part_count(count)
    records = _records(people, kind, salt, looks, pairs)
    pieces = rising_parts(scratch, records, count, parts)
    for part, found in enumerate(whole_parts(pieces, parts, kind)):
        keys, rows = np.ascontiguousarray(found["key"]), found["row"].copy()
        require_once(keys)
        if looks is None:
            yield Layout(keys, people=len(keys)), rows
            continue
        values = np.ascontiguousarray(found["value"])
        del found  # Before a table is made of it.
        # A stream of its own: free slots of two parts would be the same otherwise.
        own = keyed_by(seed, f"psi:part:{part}")
        content, number = zero_shares.encode(own, keys, values)
        yield Layout(content, number, len(keys)), rows


class Match:
    """The label holder's view of its feature holders, by the rows of its own table.

    The canary's row is the last.

    Args:
        scratch: Where it is, if it is more than that holds.
        asked: How many points it asked, the canary's among them.
        several: Whether there are two or more feature holders.
        salt: The run's.
    """

    def __init__(self, scratch: Scratch, asked: int, several: bool, salt: bytes) -> None:
        self._scratch = scratch
        self._asked = asked
        self._salt = salt
        self._total = scratch.zeros(asked, _TAGS) if several else None
        #: Places in the only holder's list, from 1; 0 for who is not there.
        self._places = np.zeros(0, dtype=np.uint8)

    def add(
        self, people: People, sizes: Sequence[int], layout: Callable[[int], Layout]
    ) -> np.ndarray | None:
        """Look for what was asked about in the layout of a holder, part by part.

        Args:
            people: Messages and points b H(x) of all rows, in pieces; the canary is the last.
            sizes: How many people each part of the layout has.
            layout: Gives one of the parts.

        Returns:
            Where there are several holders, the look-up tag of each row, shape (asked, 16).
        """
        scratch, several = self._scratch, self._total is not None
        looks = scratch.zeros(self._asked, _TAGS) if several else None
        records = _records(people, record(self._asked, valued=several), self._salt, looks)
        begins = [0, *accumulate(sizes)]

        def found() -> Iterator[tuple[np.ndarray, Mapping[str, np.ndarray]]]:
            at, part = -1, Layout(np.empty((0, TAG), dtype=np.uint8))
            for number, piece in rising_parts(scratch, records, self._asked, len(sizes)):
                if number != at:
                    at, part = number, layout(number)
                keys = np.ascontiguousarray(piece["key"])
                if several:
                    said = zero_shares.decode(part.content, part.number, keys) ^ piece["value"]
                else:
                    places = positions_in(part.content, keys)
                    said = np.where(places < 0, 0, places + begins[number] + 1)
                yield piece["row"], {"": said}

        kind = _TAGS if several else np.min_scalar_type(begins[-1])
        made = scattered(scratch, found(), self._asked, {"": kind})[""]
        if self._total is None:
            self._places = made
            return None
        for rows in slices(self._asked):
            self._total[rows] ^= made[rows]
            let_go()
        return looks

    @property
    def agrees(self) -> bool:
        """Whether the canary is common to all: keys and versions agree."""
        return bool(self._is_common(slice(self._asked - 1, self._asked))[0])

    def common(self) -> np.ndarray:
        """Who is common to all, bool, shape (asked - 1,)."""
        found = self._scratch.zeros(self._asked - 1, bool)
        for rows in slices(len(found)):
            found[rows] = self._is_common(rows)
            let_go()
        return found

    def positions(self, rows: np.ndarray, *, people: bool = False) -> np.ndarray:
        """Positions of common people in the only holder's list, integers, shape (c,).

        Args:
            rows: Their rows, shape (c,).
            people: Whether people alone are counted; the canary is in the list, too.
        """
        found = gathered(self._scratch, self._places, rows)
        for some in slices(len(found)):
            places = found[some]
            after = (places > self._places[-1]) & people
            found[some] = places - after - 1
            let_go()
        return found

    def _is_common(self, rows: slice) -> np.ndarray:
        if self._total is None:
            return np.asarray(self._places[rows] > 0)
        return np.asarray(~self._total[rows].any(axis=1))


def _records(
    people: People,
    kind: np.dtype,
    salt: bytes,
    looks: np.ndarray | None,
    pairs: Mapping[str, bytes] = MappingProxyType({}),
) -> Iterator[np.ndarray]:
    """Tags of people, with what is masked of their shares, and their rows."""
    row = 0
    for messages, points in people:
        rows = slice(row, row + len(messages))
        made = np.empty(len(messages), dtype=kind)
        made["key"] = tags("tag", points, messages, salt)
        made["row"] = np.arange(rows.start, rows.stop)
        if looks is not None:
            made["value"] = tags("mask", points, messages, salt)
            if pairs:
                made["value"] ^= zero_shares.shares(pairs, messages)
            looks[rows] = tags("look", points, messages, salt)
        row = rows.stop
        yield made
        let_go()
