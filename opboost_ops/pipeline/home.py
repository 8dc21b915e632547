"""A party's private folder for a run: files are whole or not there, tables are mapped."""

import json
import mmap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.feather as feather

from opboost_ops.errors import ContractError
from opboost_ops.tables.spill.arrays import ROWS, Scratch, release_memory, watch
from opboost_ops.tables.spill.files import whole_file

#: Bytes that are written at once of a table that is not in memory.
_WRITTEN = 1 << 22


class Home:
    """A party's private folder for one run.

    Args:
        folder: It.
        rows: How many rows a stage holds in memory at once; see `Scratch`.
    """

    def __init__(self, folder: Path, rows: int = ROWS) -> None:
        self.folder = folder
        #: What its tables are too large for, and the files that are mapped of them.
        self.scratch = Scratch(folder, rows)

    def write(self, name: str, content: bytes) -> None:
        """Keep bytes, whole or not at all, readable by their owner alone."""
        with whole_file(self.folder / name, durable=False) as file:
            file.write(content)

    def write_table(self, name: str, table: pa.Table | Iterator[pa.Table]) -> None:
        """Keep a table, in one batch where it is in one piece: then its columns can be mapped.

        Args:
            name: Its name.
            table: It, or its blocks as they are made, at least one: it is never whole in memory.
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
        """Keep a JSON value."""
        self.write(f"{name}.json", json.dumps(value, sort_keys=True, indent=1).encode())

    def read(self, name: str) -> bytes:
        """Bytes that an earlier stage kept.

        Raises:
            ContractError: There are none.
        """
        return self._kept(name).read_bytes()

    def table(self, name: str) -> pa.Table:
        """A table that an earlier stage kept.

        Its file is mapped, not read: only what is looked at comes into memory.

        Raises:
            ContractError: There is none.
        """
        with self._kept(f"{name}.arrow").open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        watch(mapped)
        # By this thread alone, as artifacts are: Arrow's own might outlive the interpreter.
        alone = pa.ipc.IpcReadOptions(use_threads=False)
        with pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped)), options=alone) as reader:
            return reader.read_all()

    def json(self, name: str) -> Any:
        """A JSON value that an earlier stage kept."""
        return json.loads(self.read(f"{name}.json"))

    def has(self, name: str) -> bool:
        """True if there is a JSON value of a name."""
        return (self.folder / f"{name}.json").is_file()

    def _kept(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise ContractError(
                f"{path.stem} of this run is not in the party's home.",
                "Run the run's earlier tasks of this party first, on the same home folder.",
            )
        return path


class _Slowly:
    """A file that lets go of what is written to it, which may be mapped, some of it at a time."""

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
