"""The label holder's scores of new rows: Parquet files that are added and never changed."""

import os
from pathlib import Path
from tempfile import mkstemp

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.errors import ContractError

#: Folder of the federation's home where each run's distribution of scores stays, by version.
DISTRIBUTIONS = "distributions"


def keep(folder: Path, version: str, name: str, table: pa.Table) -> tuple[Path, bool]:
    """Add a file of scores, whole or not at all.

    Args:
        folder: Of the federation's scores; made if it is absent.
        version: Of the model.
        name: Of what the scores follow from.
        table: The scores.

    Returns:
        ``<folder>/<version>/<name>.parquet``, and whether it is new.

    Raises:
        ContractError: It is there with other content, or damaged.
    """
    target = folder / version / f"{name}.parquet"
    for parent in reversed((target.parent, *target.parent.parents)):
        # One by one: the mode would hold for the last one alone.
        if not parent.is_dir():
            parent.mkdir(exist_ok=True, mode=0o700)
    if target.exists():
        if not _holds(target, table):
            raise ContractError(
                f"{target.name} is damaged, or holds other scores of the same rows by the same "
                "model.",
                "Scores are never changed: move the file away, and run the task again.",
            )
        return target, False
    handle, temporary = mkstemp(dir=target.parent, prefix=".part-")
    try:
        with open(handle, "wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target, True


def _holds(path: Path, table: pa.Table) -> bool:
    try:
        # By this thread alone, as everywhere: Arrow's own might outlive the interpreter.
        kept = pq.read_table(path, use_threads=False, memory_map=False)
        same = kept.schema.metadata == table.schema.metadata
        return same and _plain(kept).equals(_plain(table))
    except (pa.ArrowException, OSError):
        return False


def _plain(table: pa.Table) -> pl.DataFrame:
    """Scores by person, whatever order and dictionaries their table had."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort(frame.columns[0])
