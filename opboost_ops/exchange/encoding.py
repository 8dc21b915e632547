"""Tables as Parquet bytes: small, and the same bytes for the same content."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.errors import ArtifactError


def smallest_integers(values: np.ndarray) -> pa.Array:
    """Non-negative integers in the smallest unsigned type that holds them.

    Args:
        values: Integers, shape (n,).
    """
    highest = int(values.max(initial=0))
    if int(values.min(initial=0)) < 0:
        return pa.array(values.astype(np.int64))
    bits = next(bits for bits in (8, 16, 32, 64) if highest < 2**bits)
    return pa.array(values.astype(f"uint{bits}", copy=False))


def table_to_bytes(table: pa.Table) -> bytes:
    """A table as Parquet: dictionary pages (bit-packed) and zstd, no statistics."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(None),
        sink,
        compression="zstd",
        compression_level=9,
        use_dictionary=True,
        write_statistics=False,
        store_schema=False,
        data_page_size=64 << 20,
        row_group_size=max(table.num_rows, 1),
    )
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def table_from_bytes(raw: bytes, what: str) -> pa.Table:
    """Read such bytes.

    Args:
        raw: Parquet.
        what: Name of the artifact, for the error.

    Raises:
        ArtifactError: They are not Parquet.
    """
    try:
        # By this thread alone: `pq.read_table` scans by threads of Arrow's, which may be the last
        # to let go of the bytes, need the interpreter for it, and abort if it is just ending.
        with pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False) as file:
            return file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError):
        pass
    raise ArtifactError(f"{what}: its table is not readable Parquet.", "Trigger a new run.")


def integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers, int64, shape (n,)."""
    return np.ascontiguousarray(pl.from_arrow(table.column(column)).to_numpy(), dtype=np.int64)


def narrow_integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers in the type that it is kept in, shape (n,): for tables of many rows."""
    return np.asarray(table.column(column).to_numpy())
