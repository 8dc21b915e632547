"""Keyed digests of a party's IDs, which stay at home: person keys, and the label holder's order."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.sealed.parts import numbered, record, rising_records
from opboost_ops.exchange.sealed.tags import TAG
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import release_memory

#: Name of the label holder's table of digests, rising, and of the row that each is of.
DIGESTS, ORDER = "digests", "digest_order"


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
