"""Parquet files where they lie: one file, or a folder of them in the order of their names.

Paths are never patterns here: polars would take brackets in a folder's name for one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from opboost_ops.errors import ContractError
from opboost_ops.tables.expected import Expected

#: Why a column of several files is left out.
PARTIAL = "some of the table's files lack it"


def files_of(path: Path) -> tuple[Path, ...]:
    """The files that make up a table.

    Args:
        path: A file, or a folder whose ``*.parquet`` files are meant; hidden ones are not.

    Returns:
        The files in their order; none for an empty folder.

    Raises:
        OSError: There is nothing, or it may not be read.
    """
    if not path.is_dir():
        path.stat()
        return (path,)
    found = (entry for entry in path.iterdir() if entry.suffix == ".parquet" and entry.is_file())
    return tuple(sorted(entry for entry in found if not entry.name.startswith(".")))


def digest_of(files: Iterable[Path]) -> bytes:
    """Sha256 of a table: of its one file, or of the digests of all, whatever their names.

    Args:
        files: At least one.

    Raises:
        OSError: One cannot be read.
    """
    digests = []
    for path in files:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()


def schema_of(path: Path) -> dict[str, pl.DataType]:
    """Columns of a file and their types, as its rows are read.

    Raises:
        ArrowException, PolarsError, OSError: It is no Parquet.
    """
    with open(path, "rb") as opened:
        found = dict(pl.read_parquet_schema(opened))
    if {pl.Int128, pl.UInt128} & set(found.values()):
        return found  # Which Arrow cannot read at all.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        empty = pl.from_arrow(file.schema_arrow.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return dict(empty.schema)


def scan(path: Path) -> pl.LazyFrame:
    """A file, read when it is needed."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def scan_common(
    paths: Sequence[Path], party: str, columns: Mapping[str, Expected]
) -> tuple[pl.LazyFrame, dict[str, str]]:
    """The columns that all files have, in the order of the first one; blanks around names go.

    Args:
        paths: At least one file.
        party: Whose they are.
        columns: Declared columns by raw name, which all files must have or none.

    Returns:
        The rows; and why columns are left out, by name.

    Raises:
        ContractError: Some of the files lack a declared column.
        PolarsError, OSError: One is no Parquet.
    """
    scans = [_stripped(scan(path)) for path in paths]
    every = [part.collect_schema().names() for part in scans]
    shared = set(every[0]).intersection(*every)
    partial = {name for names in every for name in names} - shared
    for name in sorted(partial & set(columns)):
        raise ContractError(
            f"Some files of {party}'s table have no column {columns[name].name}.",
            "Write all of them with the same columns, or name those that have it.",
        )
    common = [name for name in every[0] if name in shared]
    table = pl.concat([part.select(common) for part in scans], how="vertical_relaxed")
    return table, dict.fromkeys(sorted(partial), PARTIAL)


def read_all(path: Path) -> pl.DataFrame:
    """A whole table as it lies there, for experiments and at home.

    Args:
        path: A file, or a folder of them.

    Raises:
        ContractError: There is no file.
        PolarsError, OSError: A file is no Parquet.
    """
    files = files_of(path)
    return scan_common(files, "", {})[0].collect() if files else pl.DataFrame()


def _stripped(rows: pl.LazyFrame) -> pl.LazyFrame:
    names = rows.collect_schema().names()
    if len({name.strip() for name in names}) < len(names):
        return rows
    return rows.rename({name: name.strip() for name in names})
