"""The label holder's scores of new rows: Parquet files that are added and never changed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.errors import ContractError
from opboost_ops.tables.spill.files import whole_file

#: Folder of the federation's home where each run's distribution of scores stays, by version.
DISTRIBUTIONS = "distributions"

#: Rows of a row group.
GROUP = 1 << 20

#: The scores, a row group after the other, each in one piece, as often as it is called.
Groups = Callable[[], Iterator[pa.Table]]

#: Rows that are read at a time of a file that is there.
_ROWS = 131_072

#: By which rows are told apart; nobody chooses them against us.
_SEEDS = (0, 1)


def keep(folder: Path, version: str, name: str, groups: Groups) -> tuple[Path, bool]:
    """Add a file of scores, whole or not at all.

    Args:
        folder: Of the federation's scores; made if it is absent.
        version: Of the model.
        name: Of what the scores follow from.
        groups: The scores; at least one row group.

    Returns:
        ``<folder>/<version>/<name>.parquet``, and whether it is new.

    Raises:
        ContractError: It is there with other content, or damaged.
    """
    target = folder / version / f"{name}.parquet"
    if target.exists():
        if not _holds(target, groups):
            raise ContractError(
                f"{target.name} is damaged, or holds other scores of the same rows by the same "
                "model.",
                "Scores are never changed: move the file away, and run the task again.",
            )
        return target, False
    with whole_file(target) as file:
        write_groups(file, groups())
    return target, True


def write_groups(file: IO[bytes], groups: Iterator[pa.Table]) -> None:
    """Write a Parquet file, of which no more than a row group is in memory.

    Args:
        file: Where.
        groups: At least one row group, in one piece each.
    """
    group = next(groups)
    with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
        writer.write_table(group)
        del group  # Before the next one is made.
        for each in groups:
            writer.write_table(each)


def _holds(path: Path, groups: Groups) -> bool:
    try:
        # By this thread alone, as everywhere: Arrow's own might outlive the interpreter.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            blocks = file.iter_batches(_ROWS, use_threads=False)
            stored = _said(file.schema_arrow, (pa.Table.from_batches([b]) for b in blocks))
    except (pa.ArrowException, OSError, ValueError):
        return False
    return stored == _said(next(groups()).schema, groups())


def _said(schema: pa.Schema, tables: Iterator[pa.Table]) -> tuple[object, ...]:
    """A summary of scores by person, for any order, pieces and dictionaries of their tables."""
    rows, total, types = 0, np.zeros(len(_SEEDS), dtype=np.uint64), {}
    # A file without rows has no block at all.
    for table in filter(len, tables):
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
        types = dict(frame.schema)
        rows += frame.height
        for i, seed in enumerate(_SEEDS):
            # As arrays: a sum beyond 64 bits is meant, and of a single number it would be warned.
            total[i : i + 1] += frame.hash_rows(seed=seed).to_numpy().sum(keepdims=True)
    return schema.metadata, types, rows, total.tolist()
