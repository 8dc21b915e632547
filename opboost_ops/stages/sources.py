"""A table that is not used where it lies: read once a run into a copy in the party's home.

A source is copied, and so is every table of which IDs are made, or persons' rows aggregated: here,
and nowhere else. The copy is Parquet, sorted by ID, and there whole or not at all. All that comes
after reads it. It lies in the run's folder, so that retention removes it. No message shows a URL or
a query.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.exchange.party_state import forgotten_of
from opboost_ops.scratch.folders import private_folder
from opboost_ops.stages.aggregates import write_people
from opboost_ops.stages.people import PEOPLE, People, people_of, write_ids
from opboost_ops.stages.sorted_copy import Kept, write_sorted
from opboost_ops.stages.source_files import local_parts, s3_parts
from opboost_ops.stages.source_rows import database_parts
from opboost_ops.stages.source_text import no_room
from opboost_ops.stages.stage import COPY, Context, Home, table_of

#: Bytes at home for each byte of a source, while it is sorted; once more while IDs are made, and
#: while rows are aggregated.
_TIMES = 2


def take(context: Context) -> None:
    """Make the run's copy of the party's table, unless the run has checked one already.

    Args:
        context: The party's.

    Raises:
        OpBoostError: The source cannot be read, or the disk has too little room.
        ConnectionError: A server cannot be reached: trying again may help.
    """
    table = _table(context)
    target = context.home.folder / COPY
    if not isinstance(table, Source) or (context.home.has("table") and target.is_file()):
        return
    people = people_of(context.site, context.policy, context.federation.name, context.federation.id)
    found = copy(table, context.party, target, text_columns(context), people, _kept(context))
    if found is not None:
        context.home.write_json(PEOPLE, found)


def _table(context: Context) -> Path | Source:
    return table_of(context.site, context.federation.name, context.federation.id, context.purpose)


@contextmanager
def borrowed(context: Context) -> Iterator[Context]:
    """A context of no run whose table can be read: a source is copied, and removed afterwards.

    Args:
        context: The party's.

    Raises:
        OpBoostError: As `take`.
    """
    if not isinstance(_table(context), Source):
        yield context
        return
    private_folder(context.site.home)
    with TemporaryDirectory(prefix=".table-", dir=context.site.home) as folder:
        lent = replace(context, home=Home(Path(folder)))
        try:
            take(lent)
        except ConnectionError as error:
            failure = str(error)
        else:
            failure = ""
        if failure:
            raise ContractError(failure, "Try again when the server can be reached.")
        yield lent


def _kept(context: Context) -> Kept | None:
    """Leaves out whom the party has forgotten: the copy would hold what the source still has."""
    forgotten = forgotten_of(context.site)
    if not len(forgotten):
        return None
    kind = context.federation.id.type

    def kept(ids: pl.Series) -> pl.Series:
        # IDs of another type than declared, or missing ones, are for a later check.
        plain = ids.cast(pl.String if kind == "string" else pl.Int64, strict=False)
        known = plain.is_not_null().to_numpy()
        mask = np.ones(len(plain), dtype=bool)
        mask[known] = forgotten.keep(plain.drop_nulls().to_arrow(), kind)
        return pl.Series(mask)

    return kept


def text_columns(context: Context) -> frozenset[str]:
    """Raw names of columns whose cells are texts, even where all look like numbers: 007 is no 7.

    Args:
        context: The party's.
    """
    identity = context.federation.id
    features = context.declared.features
    names = [name for name, feature in features.items() if feature.type != "numeric"]
    names += identity.parts if identity.type == "string" else []
    return frozenset(context.policy.raw_column(name, identity.column) for name in names)


def copy(
    source: Source,
    party: str,
    target: Path,
    text: Collection[str],
    people: People | str,
    kept: Kept | None = None,
) -> dict[str, Any] | None:
    """Copy a source into a Parquet file, sorted by ID; whole or not at all.

    Args:
        source: What to read.
        party: Whose it is, for messages.
        target: The file.
        text: Raw names of columns that are texts, where that is not plain.
        people: How rows become people, or the raw name of an ID column that is taken as it is; if
            that is not there, a later check says so.
        kept: Which of some IDs may be in the copy; all when absent.

    Returns:
        How IDs and people were made: counts, and numbers of rows; None where none were.

    Raises:
        OpBoostError: It cannot be read, or the disk has too little room.
        ConnectionError: A server cannot be reached.
    """
    private_folder(target.parent)
    failure: Exception
    with TemporaryDirectory(prefix=".source-", dir=target.parent) as folder:
        try:
            return _copy(source, party, Path(folder), target, frozenset(text), people, kept)
        except (OpBoostError, ConnectionError) as error:
            failure = error
        except (pl.exceptions.PolarsError, OSError, ValueError, LookupError) as error:
            # Their texts print cells, paths and URLs.
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
        "Check tables in its site.yaml: at, separator, decimal, encoding, query; and the job "
        "that writes it.",
    )


def _copy(
    source: Source,
    party: str,
    folder: Path,
    target: Path,
    text: frozenset[str],
    people: People | str,
    kept: Kept | None,
) -> dict[str, Any] | None:
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
        parts = s3_parts(url, source, party, folder, text, room)
    elif "://" in url:
        parts = database_parts(url, source, party, folder, room)
    else:
        parts = local_parts(url, source, party, folder, text, room)
    scans = [pl.scan_parquet(part) for part in parts]
    table = pl.concat(scans, how="vertical_relaxed")
    found: dict[str, Any] = {}
    identity = people if isinstance(people, str) else people.column
    if isinstance(people, People) and makes:
        staged = folder / "ids.parquet"
        found = write_ids(table, people, party, staged)
        table = pl.scan_parquet(staged)
    names = {name.strip(): name for name in table.collect_schema().names()}
    whole = folder / "whole.parquet"
    write_sorted(table, names.get(identity.strip()), whole, kept)
    if aggregate and identity.strip() in names:
        several, whole = whole, folder / "people.parquet"
        made = write_people(several, names[identity.strip()], aggregate, party, whole)
        found |= {"rows": int(table.select(pl.len()).collect().item()), "people": made}
    whole.replace(target)
    return found or None
