"""A table of any size sorted by ID into one Parquet file, some rows at a time."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

#: About how many rows are in memory at once; besides all IDs.
_ROWS = 1_000_000

#: Which of some IDs may be in the copy, boolean.
Kept = Callable[[pl.Series], pl.Series]


def write_sorted(
    table: pl.LazyFrame, identity: str | None, target: Path, kept: Kept | None = None
) -> None:
    """Write a table in the order of its IDs; rows of one ID stay in theirs, gaps come first.

    Args:
        table: From files, which are read once for each million rows.
        identity: Name of the ID column; without one, the order stays.
        target: The file; its owner alone may read it.
        kept: Whose rows are copied; all when absent.
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
    writer: pq.ParquetWriter | None = None
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            for rows in ranges:
                part = table.filter(rows).collect(engine="streaming")
                part = part.sort(identity, maintain_order=True)
                if kept is not None:
                    part = part.filter(kept(part.get_column(identity)))
                laid = part.to_arrow(compat_level=pl.CompatLevel.oldest())
                writer = writer or pq.ParquetWriter(file, laid.schema, compression="zstd")
                writer.write_table(laid)
        finally:
            if writer is not None:
                writer.close()
