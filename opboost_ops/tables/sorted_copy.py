"""A table of any size sorted by ID into one Parquet file, some rows at a time."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Self

import polars as pl
import pyarrow.parquet as pq

#: About how many rows are in memory at once; besides all IDs.
_ROWS = 1_000_000

#: Which of some IDs may be in the copy, boolean.
Kept = Callable[[pl.Series], pl.Series]


class RowWriter:
    """A new Parquet file, written some rows at a time; its owner alone may read it.

    Args:
        target: The file.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        self._file = open(os.open(self._target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        return self

    def write(self, rows: pl.DataFrame) -> None:
        """Add rows.

        Args:
            rows: With the columns of those before them.
        """
        laid = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        self._writer = self._writer or pq.ParquetWriter(self._file, laid.schema, compression="zstd")
        self._writer.write_table(laid)

    def __exit__(self, *_: object) -> None:
        with self._file:
            if self._writer is not None:
                self._writer.close()


def write_sorted(
    table: pl.LazyFrame, identity: str | None, target: Path, keep: Kept | None = None
) -> None:
    """Write a table in the order of its IDs; rows of one ID stay in theirs, gaps come first.

    Args:
        table: From files, which are read once for each million rows.
        identity: Name of the ID column; without one, the order stays.
        target: The file; its owner alone may read it.
        keep: Whose rows are copied; all when absent.
    """
    if identity is None:
        table.sink_parquet(target, compression="zstd")
        target.chmod(0o600)
        return
    at = pl.col(identity)
    ids = table.select(at).collect(engine="streaming").to_series().drop_nulls().sort()
    cuts = ids.gather_every(_ROWS).unique(maintain_order=True).to_list()[1:]
    del ids
    ranges = [at.is_null() | (at < cuts[0] if cuts else True)]
    ranges += [(at >= low) & (at < high) for low, high in pairwise(cuts)]
    ranges += [at >= cuts[-1]] if cuts else []
    with RowWriter(target) as written:
        for rows in ranges:
            part = table.filter(rows).collect(engine="streaming")
            part = part.sort(identity, maintain_order=True)
            if keep is not None:
                part = part.filter(keep(part.get_column(identity)))
            written.write(part)
