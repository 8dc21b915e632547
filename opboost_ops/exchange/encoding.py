"""Tables as Parquet bytes: small, and the same bytes for the same content."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.parquet_pages import unpacked_size
from opboost_ops.scratch.arrays import BLOCK, Scratch, let_go, slices

#: How the integers and digests of the protocol lie in Parquet.
_TYPES = frozenset({"INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"})

#: Bytes of the widest of them.
_WIDEST = 16

_MOST_COLUMNS = 20_000

#: What a column's pages may take besides their values.
_OVERHEAD = 1 << 20


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
        let_go()
    bits = next(bits for bits in (8, 16, 32, 64) if highest < 2**bits)
    kind = np.dtype("int64" if lowest < 0 else f"uint{bits}")
    if scratch is None or not large or values.dtype == kind:
        return pa.array(values.astype(kind, copy=False))
    narrow = scratch.zeros(len(values), kind)
    for rows in slices(len(values)):
        narrow[rows] = values[rows]
        let_go()
    return pa.array(narrow)


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


def require_footer(raw: bytes, what: str, rows: int) -> bool:
    """Refuse a table by what it says of itself and of its pages, before any page is unpacked.

    A page says how large it becomes, and a few kilobytes may become gigabytes. So the sizes in the
    footer and in every page's own header are compared with what so many integers can take.

    Args:
        raw: Parquet.
        what: Name of the artifact, for the error.
        rows: How many rows the table may have.

    Returns:
        Whether it has any rows.

    Raises:
        ArtifactError: It has more rows, or other types than those of the protocol, or would become
            larger than such a table is.
    """
    with pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False) as file:
        footer = file.metadata
    schema = footer.schema
    columns = [schema.column(i) for i in range(footer.num_columns)]
    flat = all(
        column.max_repetition_level == 0
        and column.max_definition_level <= 1
        and column.physical_type in _TYPES
        for column in columns
    )
    if not flat or footer.num_rows > rows or footer.metadata or footer.num_columns > _MOST_COLUMNS:
        raise ArtifactError(f"{what}: its table is none of this protocol.", "Trigger a new run.")
    if not 0 < footer.num_row_groups <= 1 + rows // 1024 and footer.num_rows:
        raise ArtifactError(f"{what}: its table has too many parts.", "Trigger a new run.")
    if not footer.num_rows:
        return False
    most = _OVERHEAD + 2 * _WIDEST * rows
    for group in range(footer.num_row_groups):
        part = footer.row_group(group)
        for i in range(part.num_columns):
            chunk = part.column(i)
            if max(chunk.total_uncompressed_size, chunk.total_compressed_size) > most:
                raise ArtifactError(
                    f"{what}: its table would become larger than it may.", "Trigger a new run."
                )
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                begin = min(begin, chunk.dictionary_page_offset)
            unpacked = unpacked_size(raw, begin, begin + chunk.total_compressed_size)
            if unpacked is None or unpacked > most:
                raise ArtifactError(
                    f"{what}: its pages would become larger than they may.", "Trigger a new run."
                )
    return True


def table_from_bytes(raw: bytes, what: str, rows: int) -> pa.Table:
    """Read such bytes.

    Args:
        raw: Parquet.
        what: Name of the artifact, for the error.
        rows: How many rows it may have at most.

    Raises:
        ArtifactError: They are not Parquet, or not a table of the protocol of so many rows.
    """
    return pa.concat_tables(pieces_from_bytes(raw, what, rows)).combine_chunks()


def pieces_from_bytes(raw: bytes, what: str, rows: int) -> Iterator[pa.Table]:
    """Read such bytes some rows at a time, so that they are never whole in memory.

    Args:
        raw: Parquet.
        what: Name of the artifact, for the error.
        rows: How many rows it may have at most.

    Yields:
        At least one table, which may be without rows.

    Raises:
        ArtifactError: They are not Parquet, or not a table of the protocol of so many rows.
    """
    try:
        filled = require_footer(raw, what, rows)
        # By this thread alone: `pq.read_table` scans by threads of Arrow's, which may be the last
        # to let go of the bytes, need the interpreter for it, and abort if it is just ending.
        with pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False) as file:
            if not filled:
                yield file.schema_arrow.empty_table()
            # At once, columns would be four bytes a cell before they are one.
            for batch in file.iter_batches(BLOCK, use_threads=False) if filled else ():
                yield pa.Table.from_batches([batch])
        return
    except (pa.ArrowException, OSError, ValueError):
        pass
    raise ArtifactError(f"{what}: its table is not readable Parquet.", "Trigger a new run.")


def integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers, int64, shape (n,)."""
    return whole_numbers(table.column(column))


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Integers as they are in a table, int64, shape (n,)."""
    return np.ascontiguousarray(pl.from_arrow(column).to_numpy(), dtype=np.int64)


def narrow_integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers in the type that it is kept in, shape (n,): for tables of many rows."""
    return np.asarray(table.column(column).to_numpy())
