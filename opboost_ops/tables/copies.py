"""Reads a table that cannot be used in place, once per run, into a copy in the party's home.

Sources are copied, and tables whose IDs are derived or whose rows are aggregated. The copy is a
Parquet file sorted by ID, and is written atomically. No message shows a URL or a query.

Two tables have the same fingerprint if they have the same rows in any order: rows may be permuted,
files split or joined, and row groups and dictionaries may differ; undeclared columns are ignored.
Each row is serialised to a text, whose AES-CMAC is a pseudorandom number; these are summed.

A cell is what `raw_table.numbers` makes of it: 5 and 5.0 are the same number, NaN is missing, and a
category is its text, whatever type stores it.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError, OpBoostError, RowsError
from opboost_ops.mechanisms.cmac import keys_of_texts
from opboost_ops.tables.columns import TEXTS, Expected, column_form, holds_numbers, match_names
from opboost_ops.tables.database import database_parts
from opboost_ops.tables.files import local_parts, s3_parts
from opboost_ops.tables.parquet import FAILURES, polars_frame, scan, scan_common
from opboost_ops.tables.people import IdFilter, People, write_ids, write_people, write_sorted
from opboost_ops.tables.spill.files import working_folder
from opboost_ops.tables.text import out_of_space

#: Bytes of free disk space needed per byte of a source while it is sorted; one more each while IDs
#: are derived and while rows are aggregated.
_SPACE_FACTOR = 2

#: Errors of libraries and of the operating system, whose texts contain cells, paths and URLs.
_FOREIGN = (*FAILURES, LookupError)

#: Rows per batch.
_ROWS = 131_072


@dataclass(frozen=True)
class CopyResult:
    """The result of copying a source.

    Attributes:
        people: Counts and row numbers from deriving IDs and aggregating; empty if neither was done.
        left_out: By column, why it is not in the copy, or is text despite its look.
    """

    people: Mapping[str, Any]
    left_out: Mapping[str, str]


def copy(
    source: Source,
    party: str,
    target: Path,
    columns: Mapping[str, Expected],
    people: People | str,
    keep: IdFilter | None = None,
) -> CopyResult:
    """Copy a source into a Parquet file, sorted by ID, atomically.

    Args:
        source: The source.
        party: Name of the party, for messages.
        target: The Parquet file.
        columns: Declared columns by raw name; types of other columns are inferred from their cells.
        people: How rows become people, or the raw name of an ID column that is used as is; a
            missing one is reported by a later check.
        keep: Selects the IDs that may be in the copy; all by default.

    Returns:
        Counts, and the columns that were left out.

    Raises:
        OpBoostError: The source cannot be read, or the disk has too little space.
        ConnectionError: A server cannot be reached.
    """
    failure: Exception
    with working_folder(target.parent, ".source-") as folder:
        try:
            return _copy(source, party, folder, target, columns, people, keep)
        except (OpBoostError, ConnectionError) as error:
            failure = error
        except _FOREIGN as error:
            failure = _fault(error, party)
    raise failure


def _fault(error: Exception, party: str) -> ContractError:
    if out_of_space(error):
        return ContractError(
            f"The disk of {party}'s home became full while its table was copied.",
            "Free space, set keep_runs_days, or move home in site.yaml to a larger disk.",
        )
    return ContractError(
        f"The table of {party} cannot be read from its source ({type(error).__name__}).",
        "Check tables in its site.yaml, and the job that writes it: a file may be truncated, or "
        "the types of a column may differ between files.",
    )


def _copy(
    source: Source,
    party: str,
    folder: Path,
    target: Path,
    columns: Mapping[str, Expected],
    people: People | str,
    keep: IdFilter | None,
) -> CopyResult:
    derives_ids = isinstance(people, People) and people.identity.is_made
    aggregate = people.aggregate if isinstance(people, People) else {}
    factor = _SPACE_FACTOR + derives_ids + bool(aggregate)

    def room(needed: int) -> None:
        """Raise if the disk has too little space for a number of bytes and their processing."""
        free = shutil.disk_usage(target.parent).free
        if needed * factor > free:
            raise RowsError(
                f"Copying the table of {party} needs about {needed * factor / 1e6:,.0f} MB in its "
                f"home folder, and {free / 1e6:,.0f} MB are free.",
                "Free space, set keep_runs_days, or move home in site.yaml to a larger disk.",
            )

    url = source.url()
    if url.startswith("s3://"):
        parts, notes = s3_parts(url, source, party, folder, columns, room)
    elif "://" in url:
        parts, notes = database_parts(url, source, party, folder, columns, room)
    else:
        parts, notes = local_parts(url, source, party, folder, columns, room)
    table, partial = scan_common(parts, party, columns)
    notes |= partial
    facts: dict[str, Any] = {}
    identity = people if isinstance(people, str) else people.column
    if isinstance(people, People) and derives_ids:
        staged = folder / "ids.parquet"
        facts = write_ids(table, people, party, staged)
        table = scan(staged)
    names = {column_form(name): name for name in table.collect_schema().names()}
    whole = folder / "whole.parquet"
    write_sorted(table, names.get(column_form(identity)), whole, keep)
    if aggregate and column_form(identity) in names:
        if not table.select(pl.len()).collect().item():
            raise ContractError(
                f"The table of {party} has no rows, so no person's row can be aggregated.",
                "Check the job that writes it, and the query in its site.yaml.",
            )
        all_rows, whole = whole, folder / "people.parquet"
        people_count = write_people(all_rows, names[column_form(identity)], aggregate, party, whole)
        facts |= {"rows": int(table.select(pl.len()).collect().item()), "people": people_count}
    whole.replace(target)
    return CopyResult(facts, notes)


def content_fingerprint(files: Iterable[Path], columns: Sequence[str], key: bytes) -> str | None:
    """Return the fingerprint of a table's content, 32 hex digits.

    Args:
        files: The table's files.
        columns: Raw names of the relevant columns, in any order.
        key: The party's secret 32-byte key.

    Returns:
        The fingerprint; None if a file cannot be read.
    """
    try:
        return rows_fingerprint(_batches(files, columns), columns, key)
    except FAILURES:
        return None


def rows_fingerprint(blocks: Iterable[pl.DataFrame], columns: Sequence[str], key: bytes) -> str:
    """Return the fingerprint of rows in memory, 32 hex digits.

    Args:
        blocks: Blocks of rows, in any order.
        columns: Names of the relevant columns, in any order; one that is missing in a block counts
            as absent there.
        key: The party's secret 32-byte key.
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
            names_in_file = match_names({name: name for name in names}, file.schema_arrow.names)
            columns = list(names_in_file.values())
            for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
                frame = polars_frame(batch)
                yield frame.select(
                    pl.col(column).alias(name) for name, column in names_in_file.items()
                )


def _cells(block: pl.DataFrame, name: str) -> pl.Series:
    """Serialise a column's cells with kind and length, so that concatenation is unambiguous."""
    if name not in block.columns:
        return pl.repeat("absent", block.height, eager=True)
    values = block.get_column(name)
    kind = values.dtype
    if kind.is_integer():
        letter, texts = "n", values.cast(pl.String)
    elif kind.is_decimal():
        # As text, because different long codes may be equal as floats.
        letter, texts = "n", values.cast(pl.String).str.replace(r"\.0*$|(\.\d*[1-9])0+$", "$1")
    elif holds_numbers(kind):
        numbers = values.cast(pl.Float64).fill_nan(None)
        # Via integers, so that integral floats have a single text, and zero has no sign.
        whole = numbers.cast(pl.Int64, strict=False)
        whole = whole.set(whole.cast(pl.Float64) != numbers, None)
        letter, texts = "n", whole.cast(pl.String).fill_null(numbers.cast(pl.String))
    elif kind in TEXTS:
        letter, texts = "t", values.cast(pl.String)
    elif kind.is_temporal():
        # By its integer: Python has no dates beyond the year 9999.
        letter, texts = f"o{kind}", values.to_physical().cast(pl.String)
    else:
        written = [None if value is None else repr(value) for value in values.to_list()]
        letter, texts = "o", pl.Series(written, dtype=pl.String)
    cells = pl.select(pl.format(f"{letter}{{}}:{{}}", texts.str.len_bytes(), texts)).to_series()
    return cells.fill_null("missing")
