"""Places in the published list of digests, and the rows of the party's own table.

Digests are published in rising order, which is a function of the set of IDs alone. Where in its own
table a party keeps each of them is a permutation that stays at home; positions, which the label
holder counts in the published list, are translated by it, once.

    >>> import numpy as np
    >>> digests = np.frombuffer(b"b" * 16 + b"a" * 16, dtype=np.uint8).reshape(2, 16)
    >>> rising(digests)
    array([1, 0], dtype=uint8)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from opboost_ops.alignment.parts import record, rising_records
from opboost_ops.alignment.short_digests import marks_size, unmarked
from opboost_ops.alignment.tags import TAG, positions_in
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.points import position_column
from opboost_ops.scratch.arrays import Scratch, let_go, slices
from opboost_ops.scratch.parts import gathered, scattered
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


def rising_keys(
    scratch: Scratch, records: Iterable[np.ndarray], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Keys in rising order, and which row each is of.

    Args:
        scratch: Where they are, if they are more than it holds.
        records: Made by `record`, in pieces.
        count: How many they are.

    Returns:
        uint8, shape (count, 16), and integers, shape (count,).
    """
    keys, rows, end = scratch.zeros(count, ("u1", (TAG,))), None, 0
    for found in rising_records(scratch, records, count):
        if rows is None:
            rows = scratch.zeros(count, found["row"].dtype)
        begin, end = end, end + len(found)
        keys[begin:end], rows[begin:end] = found["key"], found["row"]
        let_go()
    assert rows is not None
    return keys, rows


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
    # One that is nobody's, such as the message that every party adds, has no row.
    if rows is None or not _below(rows, height):
        raise _named_twice()
    pieces = ((rows[some], {"": rows[some] >= 0}) for some in slices(len(rows)))
    named = scattered(context.home.scratch, pieces, height, {"": bool})[""]
    if sum(int(named[some].sum()) for some in slices(height)) != len(rows):
        raise _named_twice()
    return rows


def _below(rows: np.ndarray, height: int) -> bool:
    return all(
        int(rows[some].min()) >= 0 and int(rows[some].max()) < height for some in slices(len(rows))
    )


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
    listed, scratch = narrow_integers(context.home.table(ORDER), "row"), context.home.scratch
    places = scratch.zeros(alignment.manifest.rows, np.min_scalar_type(len(listed)))
    for rows, piece in _pieces(alignment):
        some = narrow_integers(piece, "position")
        if not _below(some, len(listed)):
            return None
        places[rows] = some
        let_go()
    return gathered(scratch, listed, places)


def _looked_up(context: Context, alignment: Artifact) -> np.ndarray | None:
    """Rows by their look-up tags."""
    own, scratch = context.home.table(LOOKS), context.home.scratch
    looks, listed = keys_of(own.column("look")), narrow_integers(own, "row")
    count = alignment.manifest.rows
    kind = record(count)

    def wanted() -> Iterator[np.ndarray]:
        for rows, piece in _pieces(alignment):
            made = np.empty(piece.num_rows, dtype=kind)
            made["key"] = keys_of(piece.column("look"))
            made["row"] = np.arange(rows.start, rows.stop)
            yield made

    missing = False

    def found() -> Iterator[tuple[np.ndarray, Mapping[str, np.ndarray]]]:
        nonlocal missing
        # By the longer of both lists, whose part is in memory, too.
        for part in rising_records(scratch, wanted(), max(count, len(looks))):
            keys = np.ascontiguousarray(part["key"])
            first, last = (keys[end].tobytes() for end in (0, -1))
            begin = bisect_left(looks, first, key=np.ndarray.tobytes)
            end = bisect_right(looks, last, begin, key=np.ndarray.tobytes)
            at = positions_in(looks[begin:end], keys)
            if at.min() < 0:
                missing = True
                return
            yield part["row"], {"": listed[begin:end][at]}

    rows = scattered(scratch, found(), count, {"": listed.dtype})[""]
    return None if missing else rows


def _pieces(alignment: Artifact) -> Iterator[tuple[slice, pa.Table]]:
    """Rows of an alignment, and what is told of them."""
    end = 0
    for piece in alignment.pieces():
        begin, end = end, end + piece.num_rows
        yield slice(begin, end), piece
