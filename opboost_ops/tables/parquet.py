"""Reads Parquet files in place: one file, or a folder of files sorted by name.

Paths are never passed as patterns, because polars would expand brackets in a folder's name.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.config.source import is_text
from opboost_ops.errors import ContractError
from opboost_ops.tables.columns import (
    Expected,
    column_form,
    common_type,
    is_readable,
    require_readable,
    require_unique,
    type_name,
)

#: Reasons for leaving out a column of several files.
PARTIAL = "some of the table's files lack it"
DIFFERENT = "the table's files disagree about its type"

#: Folder in which Delta Lake lists the current files of a table.
_DELTA = "_delta_log"


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files of a table.

    Args:
        path: A file, or a folder whose ``*.parquet`` files are read, except hidden ones.

    Returns:
        The sorted files; empty for an empty folder.

    Raises:
        ContractError: The folder also has rows in other files, which would be left out.
        OSError: The path does not exist, or must not be read.
    """
    if not path.is_dir():
        path.stat()
        return (path,)
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    if any(entry.name == _DELTA for entry in entries):
        raise ContractError(
            "A table's folder is a Delta table, whose Parquet files also contain deleted rows.",
            "Export its current rows, or name the files that hold them by a pattern.",
        )
    files = tuple(e for e in entries if e.is_file() and e.suffix.lower() == ".parquet")
    folders = any(entry.is_dir() and not entry.name.startswith("_") for entry in entries)
    if folders or any(is_text(entry.name) for entry in entries):
        raise ContractError(
            "A table's folder holds CSV files or folders, which are not read.",
            "Name all of its files by a pattern, such as days/*.csv or days/*/*.parquet.",
        )
    return files


def digest_of(files: Iterable[Path]) -> bytes:
    """Return a table's SHA-256: of its only file, or of all files' digests, whatever their names.

    Args:
        files: At least one file.

    Raises:
        OSError: A file cannot be read.
    """
    digests = []
    for path in files:
        with open(path, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()


#: Exceptions of readers for files that are damaged or not tables.
FAILURES = (
    pa.ArrowException,
    pl.exceptions.PolarsError,
    # What polars raises where it has not foreseen the damage.
    pl.exceptions.PanicException,
    OSError,
    ValueError,
)


def schema_of(path: Path, party: str) -> dict[str, pl.DataType]:
    """Return the columns of a file and their types, as its rows are read.

    Args:
        path: The file.
        party: Name of the party.

    Raises:
        ContractError: The file is not Parquet, columns share names, or a type cannot be read.
    """
    with suppress(*FAILURES):
        arrow = pq.read_schema(path)
        require_unique(arrow.names, f"table of {party}")
        if unsupported := [
            str(at) for at, kind in enumerate(arrow.types, 1) if not is_readable(kind)
        ]:
            raise ContractError(
                f"The table of {party} has types that cannot be read, in column "
                f"{', '.join(unsupported)}: decimals of more than 38 digits, or list views.",
                "Write them as 64-bit numbers, strings or lists.",
            )
        return dict(polars_frame(arrow.empty_table()).schema)
    with suppress(*FAILURES), open(path, "rb") as opened:
        schema = dict(pl.read_parquet_schema(opened))
        if {pl.Int128, pl.UInt128} & set(schema.values()):
            return schema  # Arrow cannot read such a file.
    raise unreadable(party)


def polars_frame(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Convert Arrow columns to types that polars works with.

    Decimals of all widths become 128 bits wide, and extension types their storage types.

    Args:
        table: A table without types that `columns.is_readable` excludes.
    """
    columns, fields = [], []
    for field, values in zip(table.schema, table.columns, strict=True):
        kind = field.type
        if isinstance(kind, pa.BaseExtensionType):
            values = values.cast(kind.storage_type)
        elif pa.types.is_decimal(kind):
            values = values.cast(pa.decimal128(kind.precision, kind.scale))
        columns.append(values)
        fields.append(field.with_type(values.type))
    return pl.DataFrame(pa.table(columns, pa.schema(fields)))


def unreadable(party: str) -> ContractError:
    """Return the error for a file that cannot be read as a table."""
    return ContractError(
        f"The table of {party} is missing, truncated or not a Parquet file.",
        "Check tables in its site.yaml, and the job that writes it. Names of CSV files must end "
        "in .csv, .tsv or .txt, optionally followed by .gz.",
    )


def scan(path: Path) -> pl.LazyFrame:
    """Scan a file lazily."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def scan_common(
    paths: Sequence[Path], party: str, columns: Mapping[str, Expected]
) -> tuple[pl.LazyFrame, dict[str, str]]:
    """Return the columns that all files have, in the first file's order, named by `column_form`.

    Files may store a column in several types of one kind, such as 32 and 64-bit numbers.

    Args:
        paths: At least one file.
        party: Name of the party.
        columns: Declared columns by raw name, which must be in all files or in none.

    Returns:
        The rows; and by column, why it is left out.

    Raises:
        ContractError: A file is not Parquet, or files lack a declared column or disagree on it.
    """
    columns = {column_form(raw): expected for raw, expected in columns.items()}
    schemas = [
        {column_form(name): (name, kind) for name, kind in schema_of(path, party).items()}
        for path in paths
    ]
    left_out = {
        name: PARTIAL
        for schema in schemas
        for name in sorted(schema)
        if not all(name in other for other in schemas)
    }
    for name in sorted(left_out.keys() & columns.keys()):
        raise ContractError(
            f"Some files of {party}'s table have no column {columns[name].name}.",
            "Write all of them with the same columns, or select the files that have it.",
        )
    kinds: dict[str, pl.DataType] = {}
    for name in schemas[0].keys() - left_out.keys():
        types = [schema[name][1] for schema in schemas]
        if name in columns:
            require_readable(party, dict.fromkeys([columns[name].name], types[0]))
        kind = common_type(types)
        if kind is not None and kind not in (pl.Int128, pl.UInt128):
            kinds[name] = kind
        elif name in columns:
            raise type_conflict(party, [columns[name].name])
        else:
            unusable = "a column of type {} is not a feature"
            left_out[name] = DIFFERENT if kind is None else unusable.format(type_name(kind))
    parts = []
    for path, schema in zip(paths, schemas, strict=True):
        rows = scan(path)
        extended = {n for n, of in rows.collect_schema().items() if isinstance(of, pl.Extension)}
        stored = {
            name: pl.col(raw).ext.storage() if raw in extended else pl.col(raw)
            for name, (raw, _) in schema.items()
        }
        wanted = (
            stored[name].cast(kinds[name]).alias(name) for name in schemas[0] if name in kinds
        )
        parts.append(rows.select(wanted))
    return pl.concat(parts), left_out


def type_conflict(party: str, names: Sequence[str]) -> ContractError:
    """Return the error for files that store declared columns in incompatible types."""
    return ContractError(
        f"The files of {party}'s table disagree on the type of {', '.join(names)}.",
        "Write all of them with the same types.",
    )


def read_all(path: Path) -> pl.DataFrame:
    """Read a whole table in place, for experiments and local use.

    Args:
        path: A file, or a folder of files.

    Raises:
        ContractError, PolarsError, OSError: A file cannot be read.
    """
    files = files_of(path)
    return scan_common(files, "", {})[0].collect() if files else pl.DataFrame()
