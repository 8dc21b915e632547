"""Epochs and their keys: random files, deleted when the month is over, from which exponents follow.

They follow from nothing else, and no backup has them: once a file is deleted, nobody, the party
included, can open what was sealed in that month any more.

Points that are known for the month lie in a file of entries, in the order of a keyed hash of the
person's message. It is as sensitive as the table's IDs, and goes with the month's key.
"""

import mmap
import os
import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.ids import TAG, positions_in
from opboost_ops.exchange.sealed.parts import numbered, record, rising_records
from opboost_ops.mechanisms.cmac import keys_of_texts
from opboost_ops.tables.spill.arrays import Scratch, release_memory, track_mapping
from opboost_ops.tables.spill.files import private_folder, whole_file
from opboost_ops.tables.spill.parts import scatter

#: Clocks, and the beginning of a run at two parties, may be so far apart.
TOLERANCE = timedelta(days=1)

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")

#: Bytes of a key.
KEY = 32

#: So long after its month a key is still there, for runs that began before midnight.
GRACE = timedelta(days=2)

_ENTRY = np.dtype([("key", "u1", (TAG,)), ("point", "u1", (POINT,))])


def is_epoch(value: object) -> bool:
    """True if a value of a plan is the name of an epoch."""
    return isinstance(value, str) and _MONTH.fullmatch(value) is not None


def epoch_at(moment: datetime) -> str:
    """The epoch of a moment: its month in UTC, as in ``2026-11``.

    Args:
        moment: With its time zone.
    """
    return f"{moment.astimezone(UTC):%Y-%m}"


def begun_by(moment: datetime) -> frozenset[str]:
    """The epochs in which a run may begin at a moment: one, or two about the end of a month.

    Args:
        moment: With its time zone.
    """
    return frozenset(epoch_at(moment + shift) for shift in (-TOLERANCE, TOLERANCE))


def may_begin(epoch: str, moment: datetime) -> bool:
    """True if a run of an epoch may begin at a moment.

    Args:
        epoch: Its name.
        moment: With its time zone.
    """
    return epoch in begun_by(moment)


def now() -> datetime:
    """This machine's clock."""
    return datetime.now(UTC)


def month_key(folder: Path, month: str) -> bytes:
    """The key of a month, made at its first use.

    Args:
        folder: Where keys of months lie.
        month: As in ``2026-11``.

    Raises:
        ConfigError: The file is no key, or readable by others.
    """
    path = folder / f"{month}.key"
    if not path.exists():
        private_folder(folder)
        fresh = folder / f".{month}.{uuid4().hex}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY))
                file.flush()
                os.fsync(file.fileno())
            # Of two tasks that make one at a time, the first decides.
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink(missing_ok=True)
    if path.stat().st_mode & 0o077:
        raise ConfigError(
            f"The key of the month {path.name} can be read by others.",
            "Make it readable by its owner alone (chmod 600).",
        )
    key = path.read_bytes()
    if len(key) != KEY:
        raise ConfigError(
            f"{path.name} in {folder.name} is not a key of {KEY} bytes.",
            "Delete it: a new one is made, and the next run queries everybody again.",
        )
    return key


def delete_expired(folder: Path, moment: datetime) -> list[str]:
    """Delete everything of months that were over two days before a moment.

    Args:
        folder: Where files or folders lie whose names begin with their month.
        moment: With its time zone.

    Returns:
        Names of what was deleted.
    """
    gone = []
    last = f"{moment - GRACE:%Y-%m}"
    for path in sorted(folder.glob("*")):
        month = path.name[:7]
        if is_epoch(month) and month < last:
            if path.is_dir():
                for file in path.iterdir():
                    file.unlink(missing_ok=True)
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            gone.append(path.name)
    return gone


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
        track_mapping(mapped)
        return np.frombuffer(mapped, dtype=_ENTRY)

    def _keys(self, messages: Sequence[bytes]) -> np.ndarray:
        return keys_of_texts(self._key, b"", pa.array(messages, pa.large_binary()))


def _key_of(entry: np.void) -> bytes:
    return bytes(entry["key"].tobytes())
