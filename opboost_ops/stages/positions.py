"""Places in the published list of digests, and the rows of the party's own table.

Digests are published in rising order, which is a function of the set of IDs alone. Where in its own
table a party keeps each of them is a permutation that stays at home; positions, which the label
holder counts in the published list, are translated by it, once.

    >>> import numpy as np
    >>> digests = np.frombuffer(b"b" * 16 + b"a" * 16, dtype=np.uint8).reshape(2, 16)
    >>> rising(digests)
    array([1, 0], dtype=uint8)
"""

import numpy as np
import pyarrow as pa

from opboost_ops.alignment.short_digests import marks_size, unmarked
from opboost_ops.alignment.tags import positions_in
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.points import position_column
from opboost_ops.scratch.arrays import Scratch, let_go
from opboost_ops.stages.stage import Context

#: Name of the table that says which row each published digest is of.
ORDER = "digest_order"

#: Name of the table of look-up tags and their rows, where the label holder answers by these.
LOOKS = "look_order"


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


def rising(digests: np.ndarray) -> np.ndarray:
    """The rows of digests in the digests' rising order, integers, shape (n,).

    Args:
        digests: Shape (n, 16), uint8, in the order of the party's table.
    """
    first = np.ascontiguousarray(digests[:, :8]).view(">u8").ravel().astype(np.uint64)
    order = np.argsort(first)
    first = first[order]
    if (first[1:] == first[:-1]).any():
        order = np.lexsort((tails(digests), first[np.argsort(order)]))
    return order.astype(np.min_scalar_type(len(order)))


def order_table(order: np.ndarray, scratch: Scratch | None = None) -> pa.Table:
    """How the order is kept at home.

    Args:
        order: The row of each published digest, shape (n,).
        scratch: Where it is, if it is more than it holds.
    """
    return pa.table({"row": smallest_integers(order, scratch)})


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
    height = context.home.table("person_keys").num_rows
    if context.federation.alignment_mode == "keyed":
        rows = _marked(context, alignment)
        # A bit a place names none twice, and the order is the party's own.
        if rows is not None:
            return rows
        raise _named_twice()
    rows = _found(context, alignment)
    named = np.zeros(height, dtype=bool)
    # One that is nobody's, such as the message that every party adds, has no row.
    inside = rows is not None and rows.min() >= 0 and rows.max() < height
    if inside:
        named[rows] = True
    if rows is None or not inside or np.count_nonzero(named) != len(rows):
        raise _named_twice()
    return rows


def _named_twice() -> ContractError:
    return ContractError(
        "The alignment names a row twice, or a row that the table does not have.",
        "Trigger a new run.",
    )


def _found(context: Context, alignment: Artifact) -> np.ndarray | None:
    if position_column(context.federation) == "look":
        return _looked_up(context, alignment)
    return _counted(context, alignment)


def _marked(context: Context, alignment: Artifact) -> np.ndarray | None:
    """Rows by a bit for each place in the published list: training rows first."""
    order, scratch = narrow_integers(context.home.table(ORDER), "row"), context.home.scratch
    common, holdout = alignment.manifest.rows, alignment.document["holdout"]
    raw = alignment.entries(marks_size(len(order), common), 1)
    if not 0 <= holdout <= common:
        return None
    rows = scratch.zeros(common, order.dtype)
    ends = {False: 0, True: common - holdout}
    try:
        for places, held in unmarked(raw, len(order), common):
            for side, end in ends.items():
                some = order[places[held == side]]
                ends[side] = end + len(some)
                rows[end : ends[side]] = some[: max(common - end, 0)]
            let_go()
    except ValueError:
        return None
    return rows if ends[True] == common else None


def _counted(context: Context, alignment: Artifact) -> np.ndarray | None:
    """Rows by their places in the published list."""
    positions = narrow_integers(alignment.table, "position")
    if positions.min() < 0 or positions.max() >= context.home.table(ORDER).num_rows:
        return None
    return own_rows(context, positions)


def _looked_up(context: Context, alignment: Artifact) -> np.ndarray | None:
    """Rows by their look-up tags."""
    own = context.home.table(LOOKS)
    at = positions_in(keys_of(own.column("look")), keys_of(alignment.table.column("look")))
    return None if at.min() < 0 else np.asarray(narrow_integers(own, "row")[at])
