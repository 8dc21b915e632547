"""A table that is not used where it lies, read once a run into a copy in the party's home.

A source is copied, and so is every table of which IDs are made, or persons' rows aggregated: here,
and nowhere else. The copy is Parquet, sorted by ID, and there whole or not at all. No message shows
a URL or a query.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.tables.aggregates import write_people
from opboost_ops.tables.column_types import Expected
from opboost_ops.tables.database import database_parts
from opboost_ops.tables.files import local_parts, s3_parts
from opboost_ops.tables.names import column_form
from opboost_ops.tables.parquet import scan, scan_common
from opboost_ops.tables.people import People, write_ids
from opboost_ops.tables.sorted_copy import Kept, write_sorted
from opboost_ops.tables.spill.files import working_folder
from opboost_ops.tables.text import no_room

#: Bytes at home for each byte of a source, while it is sorted; once more while IDs are made, and
#: while rows are aggregated.
_TIMES = 2

#: Errors of libraries and of the operating system, whose texts print cells, paths and URLs.
_FOREIGN = (pl.exceptions.PolarsError, pa.ArrowException, OSError, ValueError, LookupError)


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
            "Free some, set retention_days, or move home in site.yaml to a larger disk.",
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
                "Free some, set retention_days, or move home in site.yaml to a larger disk.",
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
