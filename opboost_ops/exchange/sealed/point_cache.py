"""Points of people that are known for the month: nobody is asked about, or multiplied, twice.

A file of entries in the order of a keyed hash of the person's message. It is as sensitive as the
table's IDs, and goes with the month's key.
"""

import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.parts import numbered, record, rising_records
from opboost_ops.exchange.sealed.tags import TAG, positions_in
from opboost_ops.mechanisms.cmac import keys_of_texts
from opboost_ops.tables.spill.arrays import Scratch, release_memory, watch
from opboost_ops.tables.spill.files import whole_file
from opboost_ops.tables.spill.parts import scatter

_ENTRY = np.dtype([("key", "u1", (TAG,)), ("point", "u1", (POINT,))])


class PointCache:
    """Known points of one feature holder's exponent.

    Args:
        file: Where they are kept.
        key: Under which messages are hashed, 32 bytes.
        scratch: Where people wait, if they are more than it holds.
    """

    def __init__(self, file: Path, key: bytes, scratch: Scratch) -> None:
        self._file = file
        self._scratch = scratch
        self._key = key

    def find(
        self, messages: Iterable[Sequence[bytes]], count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whose points are known.

        Args:
            messages: In pieces.
            count: How many they are.

        Returns:
            Bool, shape (count,); and their points, uint8, shape (count, 32), zeros for others.
        """
        entries = self._entries()
        kinds = {"known": bool, "point": ("u1", (POINT,))}
        if not len(entries):
            return self._scratch.zeros(count, bool), self._scratch.zeros(count, kinds["point"])

        wanted = numbered(({"key": self._keys(some)} for some in messages), record(count))

        def hits_by_row() -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
            for piece in rising_records(self._scratch, wanted, count):
                keys = np.ascontiguousarray(piece["key"])
                ends = [keys[at].tobytes() for at in (0, -1)]
                begin = bisect_left(entries, ends[0], key=_key_of)
                stop = bisect_right(entries, ends[1], begin, key=_key_of)
                there = entries[begin:stop]
                at = positions_in(np.ascontiguousarray(there["key"]), keys)
                hit = at >= 0
                hits = np.ones(int(hit.sum()), dtype=bool)
                yield piece["row"][hit], {"known": hits, "point": there["point"][at[hit]]}
                release_memory()

        columns = scatter(self._scratch, hits_by_row(), count, kinds)
        return columns["known"], columns["point"]

    def add(self, people: Iterable[tuple[Sequence[bytes], np.ndarray]], count: int) -> None:
        """Keep points of people who are not known yet.

        Args:
            people: Messages, and their points, uint8, shape (k, 32), in pieces.
            count: How many they are.
        """
        if not count:
            return
        entries = self._entries()

        def records() -> Iterator[np.ndarray]:
            for begin in range(0, len(entries), 1 << 17):
                yield np.array(entries[begin : begin + (1 << 17)])
                release_memory()
            for messages, points in people:
                batch = np.empty(len(messages), dtype=_ENTRY)
                batch["key"], batch["point"] = self._keys(messages), points
                yield batch

        last = b""
        with whole_file(self._file, durable=False) as file:
            for some in rising_records(self._scratch, records(), len(entries) + count):
                # Another run may have kept some of them meanwhile.
                keys = some["key"]
                new = np.ones(len(some), dtype=bool)
                new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
                new[0] = keys[0].tobytes() != last
                last = keys[-1].tobytes()
                file.write(np.ascontiguousarray(some[new]).tobytes())
                release_memory()

    def remove(self, messages: Sequence[bytes]) -> int:
        """Remove people's points.

        Args:
            messages: Theirs.

        Returns:
            How many points were removed.
        """
        entries = self._entries()
        gone = np.ascontiguousarray(self._keys(messages)).view(f"V{TAG}").ravel()
        removed = 0
        with whole_file(self._file, durable=True) as file:
            for begin in range(0, len(entries), 1 << 17):
                some = np.array(entries[begin : begin + (1 << 17)])
                stays = ~np.isin(np.ascontiguousarray(some["key"]).view(f"V{TAG}").ravel(), gone)
                removed += len(some) - int(stays.sum())
                file.write(some[stays].tobytes())
                release_memory()
        return removed

    def drop(self) -> None:
        """Forget everybody: the exponent is another one now."""
        self._file.unlink(missing_ok=True)

    def _entries(self) -> np.ndarray:
        if not self._file.is_file() or not self._file.stat().st_size:
            return np.empty(0, dtype=_ENTRY)
        with self._file.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        watch(mapped)
        return np.frombuffer(mapped, dtype=_ENTRY)

    def _keys(self, messages: Sequence[bytes]) -> np.ndarray:
        return keys_of_texts(self._key, b"", pa.array(messages, pa.large_binary()))


def _key_of(entry: np.void) -> bytes:
    return bytes(entry["key"].tobytes())
