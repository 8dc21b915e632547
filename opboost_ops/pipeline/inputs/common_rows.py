"""A party's raw rows in the common order, found by keyed digests of their IDs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.sealed.ids import TAG
from opboost_ops.exchange.sealed.parts import numbered, record, rising_records
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.parts import scatter

#: Name of the label holder's table of digests, rising, and of the row that each is of.
DIGESTS, ORDER = "digests", "digest_order"


class CommonRows:
    """Some rows of a party's table; never is more than a block in memory.

    Args:
        context: The party's.
        positions: Which rows, in the order that is wanted, integers, shape (n,).
    """

    def __init__(self, context: Context, positions: np.ndarray) -> None:
        self._context = context
        self._rows = len(positions)
        height = context.home.json("table")["rows"]
        self._places = places_of(context.home.scratch, positions, height)

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[np.ndarray, pl.DataFrame]]:
        """Places of a block's wanted rows, and these rows, in the order of the table.

        Args:
            names: Which columns.

        Raises:
            ContractError: The table was rewritten, or cannot be read as declared.
        """
        for begin, block in unchanged_blocks(self._context, names):
            place = self._places[begin : begin + block.height]
            wanted = place > 0
            block = block.filter(pl.Series(wanted))
            yield place[wanted] - 1, block
            del block  # Before the next one is read.

    def columns(
        self,
        names: Sequence[str],
        make: Callable[[pl.DataFrame], Mapping[str, np.ndarray]],
        kinds: Mapping[str, Any],
    ) -> dict[str, np.ndarray]:
        """Columns made of the rows, in the order that is wanted.

        Args:
            names: Which columns are read.
            make: Makes columns of a block's rows, shape (k,) each.
            kinds: The type of each.

        Returns:
            Shape (n,) each, in memory or on disk.
        """
        pieces = ((places, make(frame)) for places, frame in self.blocks(names))
        return scatter(self._context.home.scratch, pieces, self._rows, kinds)


def rising_ids(context: Context, secret: bytes) -> tuple[np.ndarray, np.ndarray]:
    """A key of each person of the party's table in rising order, and which row it is of.

    Args:
        context: The party's.
        secret: Under which.

    Returns:
        uint8, shape (n, 16), and integers, shape (n,).

    Raises:
        ContractError: The table was rewritten since it was checked.
    """
    scratch, count = context.home.scratch, context.home.json("table")["rows"]
    kind = record(count)
    pieces = ({"key": keys} for keys in _keys(context, secret))
    digests, rows, end = scratch.zeros(count, ("u1", (TAG,))), scratch.zeros(count, kind["row"]), 0
    for batch in rising_records(scratch, numbered(pieces, kind), count):
        begin, end = end, end + len(batch)
        digests[begin:end], rows[begin:end] = batch["key"], batch["row"]
        release_memory()
    return digests, rows


def binary(keys: np.ndarray) -> pa.Array:
    """Keys of shape (n, 16), uint8, as fixed-size binary."""
    buffer = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, buffer])


def keys_of(column: pa.ChunkedArray) -> np.ndarray:
    """Such keys again, uint8, shape (n, 16).

    Args:
        column: Fixed-size binary of 16 bytes, without gaps.
    """
    # To combine one chunk is to copy it, and it may be mapped.
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    begin = 16 * joined.offset
    raw = np.frombuffer(joined.buffers()[1], dtype=np.uint8)
    return raw[begin:][: 16 * len(joined)].reshape(-1, 16)


def tails(digests: np.ndarray) -> np.ndarray:
    """The last eight bytes of digests as numbers, uint64, shape (n,).

    Args:
        digests: Shape (n, 16), uint8.
    """
    last = np.ascontiguousarray(digests[:, 8:]).view(">u8").ravel()
    return last.astype(np.uint64)


def _keys(context: Context, secret: bytes) -> Iterator[np.ndarray]:
    """The keys of the table's persons, a block after the other."""
    identity = context.federation.id
    for _, block in unchanged_blocks(context, [identity.column]):
        ids = block.get_column(identity.column).to_arrow()
        yield noise.person_keys(secret, ids, identity.type)


def places_of(scratch: Scratch, positions: np.ndarray, height: int) -> np.ndarray:
    """Where each row of a list stands in a choice of them, from 1; 0 for one that is not wanted.

    Args:
        scratch: Where it is told, if it is more than that holds.
        positions: Which rows, in the order that is wanted, integers, shape (n,).
        height: How many rows the list has.

    Returns:
        Integers, shape (height,).
    """
    numbered = (
        (positions[some], {"": np.arange(some.start + 1, some.stop + 1)})
        for some in slices(len(positions))
    )
    kind = np.min_scalar_type(len(positions))
    return scatter(scratch, numbered, height, {"": kind})[""]
