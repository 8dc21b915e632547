"""Columns of integers in the smallest types that hold them."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.tables.spill.arrays import BLOCK, Scratch, release_memory, slices


def smallest_integers(values: np.ndarray, scratch: Scratch | None = None) -> pa.Array:
    """Non-negative integers in the smallest unsigned type that holds them.

    Args:
        values: Integers, shape (n,).
        scratch: Where those are that are more than it holds.
    """
    large = scratch is not None and not scratch.holds(len(values))
    highest = lowest = 0
    for rows in slices(len(values), BLOCK if large else max(len(values), 1)):
        highest = int(values[rows].max(initial=highest))
        lowest = int(values[rows].min(initial=lowest))
        release_memory()
    bits = next(bits for bits in (8, 16, 32, 64) if highest < 2**bits)
    kind = np.dtype("int64" if lowest < 0 else f"uint{bits}")
    if scratch is None or not large or values.dtype == kind:
        return pa.array(values.astype(kind, copy=False))
    narrow = scratch.zeros(len(values), kind)
    for rows in slices(len(values)):
        narrow[rows] = values[rows]
        release_memory()
    return pa.array(narrow)


def integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers, int64, shape (n,)."""
    return whole_numbers(table.column(column))


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Integers as they are in a table, int64, shape (n,)."""
    return np.ascontiguousarray(pl.from_arrow(column).to_numpy(), dtype=np.int64)


def narrow_integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers in the type that it is kept in, shape (n,): for tables of many rows."""
    return np.asarray(table.column(column).to_numpy())
