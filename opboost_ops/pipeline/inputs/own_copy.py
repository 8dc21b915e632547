"""A party's own copies of its table in a run.

`copy_table` copies a source once, before the table is checked. At a feature holder `take` copies
everyone's IDs and the values of people who have no pin yet; the release reads the table nowhere
else. So values of people with pins cannot make a run fail, start, skip or take longer.

The copies are in the run's folder, where retention deletes them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError
from opboost_ops.exchange.party_state import forgotten_of
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.inputs.raw_blocks import IDS, blocks
from opboost_ops.pipeline.inputs.raw_table import declared_columns, domain_integers, empty
from opboost_ops.pipeline.stage import COPY, Context, Home, PartyContext, table_of
from opboost_ops.tables.columns import Expected, Kind, expected_feature, expected_label
from opboost_ops.tables.copies import copy
from opboost_ops.tables.people import PEOPLE, IdFilter, people_of
from opboost_ops.tables.spill.arrays import release_memory
from opboost_ops.tables.spill.files import working_folder
from opboost_ops.tables.spill.tables import blocks_of

#: Names of the copies: raw values of people without a pin, and everyone's integers of features
#: with ``routed: every_run``.
UNPINNED, TODAY = "unpinned", "today"

#: Column of the copy with the row number in the table.
ROW = " row"


def copy_table(context: PartyContext) -> None:
    """Copy the party's table for the run, unless the run has already checked a copy.

    Args:
        context: The party's context.

    Raises:
        OpBoostError: The source cannot be read, or the disk is full.
        ConnectionError: A server cannot be reached; a retry may help.
    """
    table = _table(context)
    target = context.home.folder / COPY
    if not isinstance(table, Source) or (context.home.has("table") and target.is_file()):
        return
    people = people_of(context.site, context.policy, context.federation.name, context.federation.id)
    columns = expected_columns(
        context.federation, context.policy, context.party, context.purpose == "train"
    )
    copied = copy(table, context.party, target, columns, people, _unforgotten(context))
    if copied.people:
        context.home.write_json(PEOPLE, copied.people)


def _table(context: PartyContext) -> Path | Source:
    return table_of(context.site, context.federation.name, context.federation.id, context.purpose)


@contextmanager
def borrowed(context: PartyContext) -> Iterator[PartyContext]:
    """Provide a context whose table can be read outside a run; a source is copied temporarily.

    Args:
        context: The party's context.

    Raises:
        OpBoostError: The table cannot be copied.
    """
    if not isinstance(_table(context), Source):
        yield context
        return
    with working_folder(context.site.home, ".table-") as folder:
        lent = replace(context, home=Home(folder))
        try:
            copy_table(lent)
        except ConnectionError as error:
            failure = str(error)
        else:
            failure = ""
        if failure:
            raise ContractError(failure, "Try again when the server can be reached.")
        yield lent


def _unforgotten(context: PartyContext) -> IdFilter | None:
    """Return a filter for people whom the party has forgotten but whom the source still has."""
    forgotten = forgotten_of(context.site)
    if not len(forgotten):
        return None
    kind = context.federation.id.type

    def filter_ids(ids: pl.Series) -> pl.Series:
        # A later check reports missing IDs and IDs of the wrong type.
        plain = ids.cast(pl.String if kind == "string" else pl.Int64, strict=False)
        present = plain.is_not_null().to_numpy()
        mask = np.ones(len(plain), dtype=bool)
        mask[present] = forgotten.keep(plain.drop_nulls().to_arrow(), kind)
        return pl.Series(mask)

    return filter_ids


def expected_columns(
    federation: Federation, policy: Policy, party: str, train: bool
) -> dict[str, Expected]:
    """Return the declared columns of a party's table, by raw name.

    Args:
        federation: The federation as declared.
        policy: The party's policy, which may map column names.
        party: Name of the party.
        train: True to include the label and the weights.
    """
    identity, declared = federation.id, federation.parties[party]
    columns = [expected_feature(name, feature) for name, feature in declared.features.items()]
    kind: Kind = "text" if identity.type == "string" else "number"
    columns += [Expected(name, kind, is_id=True) for name in identity.parts]
    if declared.label is not None:
        # In mode local the label holder's own table also has the other parties' columns.
        columns += [
            expected_feature(f"{holder}.{name}", feature)
            for holder in federation.feature_holders
            for name, feature in federation.parties[holder].features.items()
        ]
        label = expected_label(declared.label) if train else None
        columns += [] if label is None else [label]
        if train and federation.training.weight_column is not None:
            columns.append(Expected(federation.training.weight_column, "number"))
    return {policy.raw_column(column.name, identity.column): column for column in columns}


def take(context: Context) -> None:
    """Copy IDs and unpinned values, unless the run has already recorded its releases.

    Raises:
        ContractError: The table cannot be read as declared, has no rows to train on, or has a
            person without an ID or with several rows.
        BudgetError: A release would exceed a budget, or pins are lost.
    """
    if context.home.has("recorded"):
        return
    copy_table(context)
    keys = _ids(context)
    if not len(keys) and context.purpose == "train":
        raise empty(context)
    wanted = context.releases.unpinned(keys)
    rows = int(wanted.sum())
    if rows:
        context.home.write_table(UNPINNED, _unpinned(context, wanted))
    names = tuple(
        name
        for name, declaration in context.declarations().items()
        if declaration.routed == "every_run"
    )
    if names and "answer_routes" in context.stages:
        context.home.write_table(TODAY, _today(context, names))
    context.home.write_json(UNPINNED, {"rows": rows})
    digest = hashlib.sha256(np.ascontiguousarray(keys).data).hexdigest()
    context.home.write_json("table", {"sha256": digest, "rows": len(keys)})
    (context.home.folder / COPY).unlink(missing_ok=True)


def person_keys(context: Context) -> np.ndarray:
    """Return keyed hashes of everyone in the run's copy, uint8, shape (n, 16).

    Args:
        context: The feature holder's context.
    """
    ids = context.home.table(IDS).column(0)
    rows = len(ids)
    blocks_of_ids = (chunk for chunk in ids.chunks)
    kind = context.federation.id.type
    hashed = (noise.person_keys(context.person_key, chunk, kind) for chunk in blocks_of_ids)
    return context.home.scratch.filled(rows, ("u1", (16,)), hashed)


def unpinned_rows(context: Context) -> int:
    """Return the number of people whose values were copied.

    Args:
        context: The feature holder's context.
    """
    return int(context.home.json(UNPINNED)["rows"])


def unpinned_blocks(context: Context, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
    """Yield the copied values block by block, with the column `ROW`.

    Args:
        context: The feature holder's context.
        columns: Columns to read; all if empty.
    """
    return blocks_of(context.home.table(UNPINNED))(columns)


def _ids(context: Context) -> np.ndarray:
    """Copy everyone's IDs and return their keyed hashes, uint8, shape (n, 16)."""
    identity = context.federation.id
    hashed: list[np.ndarray] = []

    def read() -> Iterator[pa.Table]:
        for block in blocks(context, [identity.column]):
            table = block.to_arrow()
            ids = table.column(0).combine_chunks()
            hashed.append(noise.person_keys(context.person_key, ids, identity.type))
            yield pa.table({identity.column: ids})

    context.home.write_table(IDS, read())
    rows = sum(len(part) for part in hashed)
    return context.home.scratch.filled(rows, ("u1", (16,)), iter(hashed))


def _unpinned(context: Context, wanted: np.ndarray) -> Iterator[pa.Table]:
    end = 0
    for block in blocks(context, declared_columns(context)):
        begin, end = end, end + block.height
        here = wanted[begin:end]
        if len(here) < block.height:
            break
        numbers = pl.Series(ROW, np.arange(begin, end, dtype=np.int64))
        yield block.with_columns(numbers).filter(pl.Series(here)).to_arrow()
        del block
        release_memory()
    if end != len(wanted):
        raise _changed(context)


def _today(context: Context, names: Sequence[str]) -> Iterator[pa.Table]:
    rows, end = len(context.home.table(IDS)), 0
    for block in blocks(context, names):
        end += block.height
        yield domain_integers(context.federation, context.party, block)
        del block
    if end != rows:
        raise _changed(context)


def _changed(context: Context) -> ContractError:
    return ContractError(
        f"The table of {context.party} was rewritten while the run was reading it.",
        "Trigger a new run when the job that writes it has ended.",
    )
