"""A party's private folder for a run, cached results of earlier runs, and resumable draws.

Cached results are in the party's folder of the federation, beside the runs, and outlive them.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

from opboost_ops import __version__
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.trainer import Frame, format_of
from opboost_ops.tables.spill.arrays import ROWS, Scratch, release_memory, track_mapping
from opboost_ops.tables.spill.files import locked_file, whole_file

#: Bytes per write of a table on disk.
_WRITTEN = 1 << 22


class Home:
    """A party's private folder for one run.

    Args:
        folder: Path of the folder.
        rows: Maximum rows that a stage holds in memory; see `Scratch`.
    """

    def __init__(self, folder: Path, rows: int = ROWS) -> None:
        self.folder = folder
        #: Spill files of the run, and arrays mapped from them.
        self.scratch = Scratch(folder, rows)

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically, readable by its owner only."""
        with whole_file(self.folder / name, durable=False) as file:
            file.write(content)

    def write_table(self, name: str, table: pa.Table | Iterator[pa.Table]) -> None:
        """Write a table; a whole table as one batch, so that its columns can be memory-mapped.

        Args:
            name: Name of the table.
            table: The table, or at least one block; blocks are written as they are made.
        """
        with whole_file(self.folder / f"{name}.arrow", durable=False) as file:
            if isinstance(table, pa.Table):
                rows = max(table.num_rows, 1)
                sink = file if self.scratch.holds(rows) else _Slowly(file)
                feather.write_feather(table, sink, compression="uncompressed", chunksize=rows)
                return
            with ExitStack() as opened:
                writer = None
                for block in table:
                    writer = writer or opened.enter_context(pa.ipc.new_file(file, block.schema))
                    writer.write_table(block)
                    del block
                    release_memory()

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON value."""
        self.write(f"{name}.json", json.dumps(value, sort_keys=True, indent=1).encode())

    def read(self, name: str) -> bytes:
        """Read a file that an earlier stage wrote.

        Raises:
            ContractError: It does not exist.
        """
        return self._existing_path(name).read_bytes()

    def table(self, name: str) -> pa.Table:
        """Return a table that an earlier stage wrote.

        The file is memory-mapped: only accessed parts are loaded.

        Raises:
            ContractError: It does not exist.
        """
        with self._existing_path(f"{name}.arrow").open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        track_mapping(mapped)
        # No Arrow threads, as for artifacts: they might outlive the interpreter.
        alone = pa.ipc.IpcReadOptions(use_threads=False)
        with pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped)), options=alone) as reader:
            return reader.read_all()

    def json(self, name: str) -> Any:
        """Read a JSON value that an earlier stage wrote."""
        return json.loads(self.read(f"{name}.json"))

    def has(self, name: str) -> bool:
        """Return True if a JSON value of this name exists."""
        return (self.folder / f"{name}.json").is_file()

    def _existing_path(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise ContractError(
                f"{path.stem} of this run is not in the party's home.",
                "Run the run's earlier tasks of this party first, on the same home folder.",
            )
        return path


class _Slowly:
    """A file that releases memory during large writes, for content that may be memory-mapped."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.closed = False

    def write(self, content: Any) -> int:
        raw = memoryview(content).cast("B")
        for begin in range(0, len(raw), _WRITTEN):
            self._file.write(raw[begin : begin + _WRITTEN])
            release_memory()
        return len(raw)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


@dataclass(frozen=True)
class Cache:
    """A cached result of one kind: only the last one is stored.

    Attributes:
        home: The folder.
        name: Name of its document.
        file: Name of its content file.
    """

    home: Home
    name: str
    file: str

    def read(self, made_of: str) -> tuple[Mapping[str, Any], bytes] | None:
        """Return facts and content if the inputs are the same and nothing was damaged, else None.

        Args:
            made_of: Digest of all inputs of the result.
        """
        try:
            last = self.home.json(self.name) if self.home.has(self.name) else {}
            if last["made_of"] != made_of:
                return None
            facts, content = last["facts"], self.home.read(self.file)
            if _digest(facts, content) != last["digest"]:
                return None
        except (ContractError, OSError, ValueError, LookupError, TypeError):
            return None
        return facts, content

    def write(self, made_of: str, facts: Mapping[str, Any], content: bytes) -> None:
        """Replace the cached result.

        Args:
            made_of: Digest of all inputs of the new result.
            facts: JSON values.
            content: The result's bytes.
        """
        self.home.write(self.file, content)
        document = {"made_of": made_of, "facts": facts, "digest": _digest(facts, content)}
        self.home.write_json(self.name, document)


def baseline_cache(home: Home) -> Cache:
    """Return the cache of the baseline's predictions."""
    return Cache(home, "alone", "alone.npy")


def model_cache(home: Home) -> Cache:
    """Return the cache of the partial model."""
    return Cache(home, "trained", "trained.model")


def importance_cache(home: Home) -> Cache:
    """Return the cache of feature importances."""
    return Cache(home, "explained", "explained.lines")


def cached_files(home: Path) -> list[Path]:
    """Return the files of all cached results, which depend on people's rows.

    Args:
        home: The party's home, with the folders of its federations.
    """
    makers = (baseline_cache, model_cache, importance_cache)
    caches = (cache(Home(home)) for cache in makers)
    names = [name for each in caches for name in (f"{each.name}.json", each.file)]
    return [path for name in names for path in home.glob(f"*/{name}")]


def fingerprint(words: str, frame: Frame, *more: np.ndarray) -> str:
    """Return a digest of all inputs of a result.

    Args:
        words: Description of all inputs except rows.
        frame: The rows.
        more: Further columns or rows.
    """
    digest = hashlib.blake2b(digest_size=32)
    parts = [frame.names, frame.categorical, frame.ranked, frame.thresholds, frame.categories]
    digest.update(repr((words, parts)).encode())
    weight = np.empty(0) if frame.weight is None else frame.weight
    for array in (frame.matrix, weight, *more):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array.T).view(np.uint8).data)
    return digest.hexdigest()


def software(trainer: str) -> tuple[str, ...]:
    """Return the software versions that a trained model depends on.

    Args:
        trainer: The trainer's name in the federation file.
    """
    return __version__, np.__version__, format_of(trainer).version()


def _digest(facts: Any, content: bytes) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + content).hexdigest()


class ResumeLog:
    """A log of a run's draws in the party's home, from which a retry resumes.

    Args:
        home: The run's home.
        file: Name of the log file.
    """

    def __init__(self, home: Home, file: str = "drawn_trees.jsonl") -> None:
        self._path = home.folder / file
        #: Bytes of the complete lines that this process has read or written.
        self._known = 0

    def lines(self) -> list[bytes]:
        """Return all complete lines; a line cut off by a crash was never used."""
        if not self._path.is_file():
            return []
        whole, _, _ = self._path.read_bytes().rpartition(b"\n")
        self._known = len(whole) + 1 if whole else 0
        return whole.split(b"\n") if whole else []

    def append(self, line: bytes) -> None:
        """Append a line; it is on disk when this returns.

        Raises:
            ContractError: Another process has drawn in this run since the lines were read.
        """
        with locked_file(self._path) as file:
            end = file.read().rfind(b"\n") + 1
            if end != self._known:
                raise ContractError(
                    "Another process trains or evaluates in this run at the same time; noise is "
                    "drawn once.",
                    "When it has ended, clear this task: it goes on with the same draws.",
                )
            # Overwrite a line cut off by a crash.
            file.truncate(end)
            file.seek(end)
            self._known += file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def name(self) -> str:
        """Return the name of this draw, unique among the draws of a run."""
        return hashlib.sha256(b"".join(self.lines()[:1])).hexdigest()
