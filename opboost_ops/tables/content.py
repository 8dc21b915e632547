"""A keyed fingerprint of what a table says, however it is written.

Two tables have the same one if they hold the same rows in some order: rows may be permuted, files
split or joined, row groups and dictionaries other ones, and other columns are not looked at. Each
row is written as one text, whose AES-CMAC is a pseudorandom number; the numbers are added up.

A cell is what `raw_table.numbers` makes of it: 5 and 5.0 are one number, NaN is missing, a
category is its text, whatever type keeps it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from opboost_ops.mechanisms.cmac import keys_of_texts
from opboost_ops.tables.column_types import holds_numbers
from opboost_ops.tables.names import found_names
from opboost_ops.tables.parquet import FAILURES, polars_frame

#: Rows at a time.
_ROWS = 131_072

_STRINGS = (pl.String, pl.Categorical, pl.Enum)


def content_fingerprint(files: Iterable[Path], columns: Sequence[str], key: bytes) -> str | None:
    """The fingerprint of a table, 32 hex digits.

    Args:
        files: That make it up.
        columns: Raw names of those that count, in whatever order.
        key: 32 bytes that nobody else has.

    Returns:
        The fingerprint; None if a file cannot be read.
    """
    try:
        return rows_fingerprint(_batches(files, columns), columns, key)
    except FAILURES:
        return None


def rows_fingerprint(blocks: Iterable[pl.DataFrame], columns: Sequence[str], key: bytes) -> str:
    """The same of rows that are read already, 32 hex digits.

    Args:
        blocks: Of the rows, in whatever order.
        columns: Names of those that count, in whatever order; one that a block lacks counts as
            absent there.
        key: 32 bytes that nobody else has.
    """
    names = sorted(set(columns))
    rows, total = 0, np.zeros(2, dtype=np.uint64)
    for block in blocks:
        cells = [_cells(block, name) for name in names]
        texts = pl.select(pl.concat_str(cells)).to_series().to_arrow()
        rows += block.height
        total += keys_of_texts(key, b"row", texts).view(np.uint64).sum(axis=0)
    summary = repr((names, rows, total.tolist())).encode()
    return hashlib.blake2b(summary, key=key, digest_size=16).hexdigest()


def _batches(paths: Iterable[Path], names: Sequence[str]) -> Iterator[pl.DataFrame]:
    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            there = found_names({name: name for name in names}, file.schema_arrow.names)
            columns = list(there.values())
            for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
                frame = polars_frame(batch)
                yield frame.select(pl.col(column).alias(name) for name, column in there.items())


def _cells(block: pl.DataFrame, name: str) -> pl.Series:
    """A column's cells as texts that begin with their kind and length, so that none runs over."""
    if name not in block.columns:
        return pl.repeat("absent", block.height, eager=True)
    values = block.get_column(name)
    kind = values.dtype
    if kind.is_integer():
        letter, texts = "n", values.cast(pl.String)
    elif holds_numbers(kind):
        numbers = values.cast(pl.Float64).fill_nan(None)
        # As integers, whole numbers have one text, and zero has no sign.
        whole = numbers.cast(pl.Int64, strict=False)
        whole = whole.set(whole.cast(pl.Float64) != numbers, None)
        letter, texts = "n", whole.cast(pl.String).fill_null(numbers.cast(pl.String))
    elif kind in _STRINGS:
        letter, texts = "t", values.cast(pl.String)
    else:
        written = [None if value is None else repr(value) for value in values.to_list()]
        letter, texts = "o", pl.Series(written, dtype=pl.String)
    cells = pl.select(pl.format(f"{letter}{{}}:{{}}", texts.str.len_bytes(), texts)).to_series()
    return cells.fill_null("missing")
