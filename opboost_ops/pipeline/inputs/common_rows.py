"""A party's raw rows in the common order, located by keyed digests of their IDs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.sealed.ids import TAG
from opboost_ops.exchange.sealed.parts import number_rows, record, sorted_records
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.parts import scatter

#: Names of the label holder's table of digests in ascending order, and of their row numbers.
DIGESTS, ORDER = "digests", "digest_order"


class CommonRows:
    """Selected rows of a party's table, read with at most one block in memory.

    Args:
        context: The party's context.
        positions: Row numbers in the requested order, integers, shape (n,).
    """

    def __init__(self, context: Context, positions: np.ndarray) -> None:
        self._context = context
        self._rows = len(positions)
        height = context.home.json("table")["rows"]
        self._places = places_of(context.home.scratch, positions, height)

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[np.ndarray, pl.DataFrame]]:
        """Yield each block's selected rows and their places in the requested order.

        Args:
            names: Columns to read.

        Raises:
            ContractError: The table was rewritten, or cannot be read as declared.
        """
        for begin, block in unchanged_blocks(self._context, names):
            place = self._places[begin : begin + block.height]
            wanted = place > 0
            block = block.filter(pl.Series(wanted))
            yield place[wanted] - 1, block
            del block  # Free memory before the next one is read.

    def columns(
        self,
        names: Sequence[str],
        make: Callable[[pl.DataFrame], Mapping[str, np.ndarray]],
        kinds: Mapping[str, Any],
    ) -> dict[str, np.ndarray]:
        """Return columns derived from the rows, in the requested order.

        Args:
            names: Columns to read.
            make: Derives columns of shape (k,) from a block of k rows.
            kinds: Data type of each derived column.

        Returns:
            Columns of shape (n,), in memory or on disk.
        """
        pieces = ((places, make(frame)) for places, frame in self.blocks(names))
        return scatter(self._context.home.scratch, pieces, self._rows, kinds)


def rising_ids(context: Context, secret: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the keyed digest of each person in ascending order, with the person's row number.

    Args:
        context: The party's context.
        secret: Key of the digests.

    Returns:
        uint8, shape (n, 16), and integers, shape (n,).

    Raises:
        ContractError: The table was rewritten since it was checked.
    """
    scratch, count = context.home.scratch, context.home.json("table")["rows"]
    kind = record(count)
    pieces = ({"key": keys} for keys in _keys(context, secret))
    digests, rows, end = scratch.zeros(count, ("u1", (TAG,))), scratch.zeros(count, kind["row"]), 0
    for batch in sorted_records(scratch, number_rows(pieces, kind), count):
        begin, end = end, end + len(batch)
        digests[begin:end], rows[begin:end] = batch["key"], batch["row"]
        release_memory()
    return digests, rows


def binary(keys: np.ndarray) -> pa.Array:
    """Convert keys of shape (n, 16), uint8, to fixed-size binary."""
    buffer = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, buffer])


def keys_of(column: pa.ChunkedArray) -> np.ndarray:
    """Convert fixed-size binary keys to uint8, shape (n, 16).

    Args:
        column: Fixed-size binary of 16 bytes, without nulls.
    """
    # combine_chunks would copy even a single chunk, which may be memory-mapped.
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    begin = 16 * joined.offset
    raw = np.frombuffer(joined.buffers()[1], dtype=np.uint8)
    return raw[begin:][: 16 * len(joined)].reshape(-1, 16)


def tails(digests: np.ndarray) -> np.ndarray:
    """Return the last eight bytes of digests as numbers, uint64, shape (n,).

    Args:
        digests: Shape (n, 16), uint8.
    """
    last = np.ascontiguousarray(digests[:, 8:]).view(">u8").ravel()
    return last.astype(np.uint64)


def _keys(context: Context, secret: bytes) -> Iterator[np.ndarray]:
    """Yield the keyed digests of the table's people, block by block."""
    identity = context.federation.id
    for _, block in unchanged_blocks(context, [identity.column]):
        ids = block.get_column(identity.column).to_arrow()
        yield noise.person_keys(secret, ids, identity.type)


def places_of(scratch: Scratch, positions: np.ndarray, height: int) -> np.ndarray:
    """Return the 1-based place of each row in a selection, 0 for rows that are not selected.

    Args:
        scratch: Holds the result on disk if it is too large for memory.
        positions: Row numbers in the requested order, integers, shape (n,).
        height: Number of rows of the table.

    Returns:
        Integers, shape (height,).
    """
    numbered = (
        (positions[some], {"": np.arange(some.start + 1, some.stop + 1)})
        for some in slices(len(positions))
    )
    kind = np.min_scalar_type(len(positions))
    return scatter(scratch, numbered, height, {"": kind})[""]
