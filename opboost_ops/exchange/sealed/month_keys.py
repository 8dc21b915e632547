"""Month keys, from which exponents are derived: random files, deleted after their month (epoch).

The keys are not derived from anything, and backups do not contain them. Once a key is deleted,
nobody, including the party, can open rows that were sealed in that month.

A file of entries caches the month's known points, sorted by a keyed hash of the person's message.
It is as sensitive as the table's IDs, and is deleted with the month's key.
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
from opboost_ops.exchange.sealed.parts import number_rows, record, sorted_records
from opboost_ops.mechanisms.cmac import keys_of_texts
from opboost_ops.tables.spill.arrays import Scratch, release_memory, track_mapping
from opboost_ops.tables.spill.files import private_folder, whole_file
from opboost_ops.tables.spill.parts import scatter

#: Maximum difference between parties' clocks and start times of a run.
TOLERANCE = timedelta(days=1)

_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")

#: Bytes of a key.
KEY = 32

#: Time for which a key remains after its month, for runs that began before midnight.
GRACE = timedelta(days=2)

_ENTRY = np.dtype([("key", "u1", (TAG,)), ("point", "u1", (POINT,))])


def is_epoch(value: object) -> bool:
    """Return True if a value of a plan is the name of an epoch."""
    return isinstance(value, str) and _MONTH.fullmatch(value) is not None


def epoch_at(moment: datetime) -> str:
    """Return the epoch of a time: its month in UTC, such as ``2026-11``.

    Args:
        moment: Time with time zone.
    """
    return f"{moment.astimezone(UTC):%Y-%m}"


def possible_epochs(moment: datetime) -> frozenset[str]:
    """Return the epochs of runs that begin at a time: one, or two near the end of a month.

    Args:
        moment: Time with time zone.
    """
    return frozenset(epoch_at(moment + shift) for shift in (-TOLERANCE, TOLERANCE))


def may_begin(epoch: str, moment: datetime) -> bool:
    """Return True if a run of an epoch may begin at a time.

    Args:
        epoch: Name of the epoch.
        moment: Time with time zone.
    """
    return epoch in possible_epochs(moment)


def now() -> datetime:
    """Return the time by this machine's clock."""
    return datetime.now(UTC)


def month_key(folder: Path, month: str) -> bytes:
    """Return the key of a month, created at its first use.

    Args:
        folder: Folder of the month keys.
        month: Month, such as ``2026-11``.

    Raises:
        ConfigError: The file is not a key, or is readable by others.
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
            # If two tasks create a key at once, the first one counts.
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
            "Delete it: a new key is created, and the next run queries all people again.",
        )
    return key


def delete_expired(folder: Path, moment: datetime) -> list[str]:
    """Delete the files and folders of months that ended at least two days before a time.

    Args:
        folder: Folder of files or folders whose names begin with their month.
        moment: Time with time zone.

    Returns:
        Names of the deleted files and folders.
    """
    deleted = []
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
            deleted.append(path.name)
    return deleted


class PointCache:
    """A cache of people's points under one feature holder's exponent.

    Args:
        file: The file of entries.
        key: Key of the messages' hashes, 32 bytes.
        scratch: Spills people to disk if they exceed its memory limit.
    """

    def __init__(self, file: Path, key: bytes, scratch: Scratch) -> None:
        self._file = file
        self._scratch = scratch
        self._key = key

    def find(
        self, messages: Iterable[Sequence[bytes]], count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which points are cached, and these points.

        Args:
            messages: People's messages, in pieces.
            count: Number of messages.

        Returns:
            True for cached points, bool, shape (count,); and the points, uint8, shape
            (count, 32), zeros for others.
        """
        entries = self._entries()
        kinds = {"known": bool, "point": ("u1", (POINT,))}
        if not len(entries):
            return self._scratch.zeros(count, bool), self._scratch.zeros(count, kinds["point"])

        wanted = number_rows(({"key": self._keys(some)} for some in messages), record(count))

        def hits_by_row() -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
            for piece in sorted_records(self._scratch, wanted, count):
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
        """Add points to the cache.

        Args:
            people: Messages, and their points, uint8, shape (k, 32), in pieces.
            count: Number of messages.
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
            for some in sorted_records(self._scratch, records(), len(entries) + count):
                # Another run may have added some of them since.
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
            messages: The people's messages.

        Returns:
            Number of removed points.
        """
        entries = self._entries()
        to_remove = np.ascontiguousarray(self._keys(messages)).view(f"V{TAG}").ravel()
        removed = 0
        with whole_file(self._file, durable=True) as file:
            for begin in range(0, len(entries), 1 << 17):
                some = np.array(entries[begin : begin + (1 << 17)])
                keys = np.ascontiguousarray(some["key"]).view(f"V{TAG}").ravel()
                stays = ~np.isin(keys, to_remove)
                removed += len(some) - int(stays.sum())
                file.write(some[stays].tobytes())
                release_memory()
        return removed

    def drop(self) -> None:
        """Remove all points, because the exponent has changed."""
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
