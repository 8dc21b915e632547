"""Places in the published list of digests, and the rows of the party's own table.

Digests are published in rising order, which is a function of the set of IDs alone. Where in its own
table a party keeps each of them is a permutation that stays at home; positions, which the label
holder counts in the published list, are translated by it, once.

    >>> import numpy as np
    >>> digests = np.frombuffer(b"b" * 16 + b"a" * 16, dtype=np.uint8).reshape(2, 16)
    >>> rising(digests)
    array([1, 0])
"""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.stages.stage import Context

#: Name of the table that says which row each published digest is of.
ORDER = "digest_order"


def binary(keys: np.ndarray) -> pa.Array:
    """Keys of shape (n, 16), uint8, as fixed-size binary."""
    buffer = pa.py_buffer(np.ascontiguousarray(keys))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, buffer])


def numbers(digests: pa.Array | pa.ChunkedArray) -> pl.Series:
    """Digests as numbers of 128 bits, which have their order and are sorted much faster.

    Args:
        digests: Fixed-size binary of 16 bytes, shape (n,).
    """
    series = pl.Series("digest", digests.cast(pa.binary()))
    return series.bin.reinterpret(dtype=pl.UInt128, endianness="big")


def rising(digests: np.ndarray) -> np.ndarray:
    """The rows of digests in the digests' rising order, integers, shape (n,).

    Args:
        digests: Shape (n, 16), uint8, in the order of the party's table.
    """
    return numbers(binary(digests)).arg_sort().to_numpy()


def order_table(order: np.ndarray) -> pa.Table:
    """How the order is kept at home.

    Args:
        order: The row of each published digest, shape (n,).
    """
    return pa.table({"row": smallest_integers(order)})


def own_rows(context: Context, positions: np.ndarray) -> np.ndarray:
    """The rows of the party's own table at some places of the published list.

    Args:
        context: The party's.
        positions: Places, integers, shape (n,).

    Returns:
        Rows, integers, shape (n,).
    """
    return np.asarray(narrow_integers(context.home.table(ORDER), "row")[positions])


def aligned_rows(context: Context, alignment: Artifact) -> np.ndarray:
    """Which rows of the party's table are the common ones, in the common order, shape (n,).

    Args:
        context: The party's.
        alignment: The accepted alignment.

    Raises:
        ContractError: A row is named twice, or the table does not have it.
    """
    height = context.home.table(ORDER).num_rows
    positions = narrow_integers(alignment.table, "position")
    named = np.zeros(height, dtype=bool)
    inside = positions.min() >= 0 and positions.max() < height
    if inside:
        named[positions] = True
    if not inside or np.count_nonzero(named) != len(positions):
        raise ContractError(
            "The alignment names a row twice, or a row that the table does not have.",
            "Trigger a new run.",
        )
    return own_rows(context, positions)
