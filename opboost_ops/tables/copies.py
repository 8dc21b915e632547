"""A table that is not used where it lies, read once a run into a copy in the party's home.

A source is copied, and so is every table of which IDs are made, or persons' rows aggregated: here,
and nowhere else. The copy is Parquet, sorted by ID, and there whole or not at all. No message shows
a URL or a query.

Two tables have the same fingerprint if they hold the same rows in some order: rows may be permuted,
files split or joined, row groups and dictionaries other ones, and other columns are not looked at.
Each row is written as one text, whose AES-CMAC is a pseudorandom number; the numbers are added up.

A cell is what `raw_table.numbers` makes of it: 5 and 5.0 are one number, NaN is missing, a
category is its text, whatever type keeps it.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.mechanisms.cmac import keys_of_texts
from opboost_ops.tables.columns import TEXTS, Expected, column_form, found_names, holds_numbers
from opboost_ops.tables.database import database_parts
from opboost_ops.tables.files import local_parts, s3_parts
from opboost_ops.tables.parquet import FAILURES, polars_frame, scan, scan_common
from opboost_ops.tables.people import Kept, People, write_ids, write_people, write_sorted
from opboost_ops.tables.spill.files import working_folder
from opboost_ops.tables.text import no_room

#: Bytes at home for each byte of a source, while it is sorted; once more while IDs are made, and
#: while rows are aggregated.
_TIMES = 2

#: Errors of libraries and of the operating system, whose texts print cells, paths and URLs.
_FOREIGN = (pl.exceptions.PolarsError, pa.ArrowException, OSError, ValueError, LookupError)

#: Rows at a time.
_ROWS = 131_072


@dataclass(frozen=True)
class Copied:
    """A source as it was copied.

    Attributes:
        people: How IDs and people were made: counts, and numbers of rows; empty where none were.
        left_out: Why a column is not in the copy, or is text although it looks like more, by name.
    """

    people: Mapping[str, Any]
    left_out: Mapping[str, str]


def copy(
    source: Source,
    party: str,
    target: Path,
    columns: Mapping[str, Expected],
    people: People | str,
    keep: Kept | None = None,
) -> Copied:
    """Copy a source into a Parquet file, sorted by ID; whole or not at all.

    Args:
        source: What to read.
        party: Whose it is, for messages.
        target: The file.
        columns: Declared columns by raw name; of all others their cells decide.
        people: How rows become people, or the raw name of an ID column that is taken as it is; if
            that is not there, a later check says so.
        keep: Which of some IDs may be in the copy; all when absent.

    Returns:
        How IDs and people were made, and which columns are left out.

    Raises:
        OpBoostError: It cannot be read, or the disk has too little room.
        ConnectionError: A server cannot be reached.
    """
    failure: Exception
    with working_folder(target.parent, ".source-") as folder:
        try:
            return _copy(source, party, folder, target, columns, people, keep)
        except (OpBoostError, ConnectionError) as error:
            failure = error
        except (
            pl.exceptions.PolarsError,
            pa.ArrowException,
            OSError,
            ValueError,
            LookupError,
        ) as error:
            failure = _fault(error, party)
    raise failure


def _fault(error: Exception, party: str) -> ContractError:
    if no_room(error):
        return ContractError(
            f"The disk of {party}'s home has become full while its table was copied.",
            "Free some, set keep_runs_days, or move home in site.yaml to a larger disk.",
        )
    return ContractError(
        f"The table of {party} cannot be read from its source ({type(error).__name__}).",
        "Check tables in its site.yaml, and the job that writes it: is a file truncated, or do "
        "types of one column differ between files?",
    )


def _copy(
    source: Source,
    party: str,
    folder: Path,
    target: Path,
    columns: Mapping[str, Expected],
    people: People | str,
    keep: Kept | None,
) -> Copied:
    makes = isinstance(people, People) and people.identity.is_made
    aggregate = people.aggregate if isinstance(people, People) else {}
    times = _TIMES + makes + bool(aggregate)

    def room(needed: int) -> None:
        """Refuse what the disk has no room for, before it is written."""
        free = shutil.disk_usage(target.parent).free
        if needed * times > free:
            raise ContractError(
                f"The table of {party} needs about {needed * times / 1e6:,.0f} MB in its home "
                f"folder while it is copied, and {free / 1e6:,.0f} MB are free.",
                "Free some, set keep_runs_days, or move home in site.yaml to a larger disk.",
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
    if isinstance(people, People) and makes:
        staged = folder / "ids.parquet"
        facts = write_ids(table, people, party, staged)
        table = scan(staged)
    names = {column_form(name): name for name in table.collect_schema().names()}
    whole = folder / "whole.parquet"
    write_sorted(table, names.get(column_form(identity)), whole, keep)
    if aggregate and column_form(identity) in names:
        if not table.select(pl.len()).collect().item():
            raise ContractError(
                f"The table of {party} has no rows of which a person's row could be made.",
                "Check the job that writes it, and the query in its site.yaml.",
            )
        several, whole = whole, folder / "people.parquet"
        people_count = write_people(several, names[column_form(identity)], aggregate, party, whole)
        facts |= {"rows": int(table.select(pl.len()).collect().item()), "people": people_count}
    whole.replace(target)
    return Copied(facts, notes)


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
    elif kind.is_decimal():
        # Long codes that differ are one float.
        letter, texts = "n", values.cast(pl.String).str.replace(r"\.0*$|(\.\d*[1-9])0+$", "$1")
    elif holds_numbers(kind):
        numbers = values.cast(pl.Float64).fill_nan(None)
        # As integers, whole numbers have one text, and zero has no sign.
        whole = numbers.cast(pl.Int64, strict=False)
        whole = whole.set(whole.cast(pl.Float64) != numbers, None)
        letter, texts = "n", whole.cast(pl.String).fill_null(numbers.cast(pl.String))
    elif kind in TEXTS:
        letter, texts = "t", values.cast(pl.String)
    else:
        written = [None if value is None else repr(value) for value in values.to_list()]
        letter, texts = "o", pl.Series(written, dtype=pl.String)
    cells = pl.select(pl.format(f"{letter}{{}}:{{}}", texts.str.len_bytes(), texts)).to_series()
    return cells.fill_null("missing")
