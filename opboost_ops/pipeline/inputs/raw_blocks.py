"""Reading of a party's own Parquet table, block by block or whole columns at once."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.exchange.party_state import forgotten_of
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.raw_table import declared_columns, raw_names
from opboost_ops.pipeline.stage import PartyContext
from opboost_ops.tables.columns import match_names
from opboost_ops.tables.parquet import FAILURES, polars_frame, unreadable
from opboost_ops.tables.spill.tables import blocks_of, rows_of_block

#: Name of a feature holder's copy of all IDs in a run.
IDS = "ids"

#: Read buffer in bytes per column.
_BUFFER = 1 << 20


def blocks(
    context: PartyContext,
    columns: Sequence[str] = (),
    why: str = "the federation file declares",
) -> Iterator[pl.DataFrame]:
    """Yield the party's table block by block, because it may be larger than memory.

    Args:
        context: The party's context.
        columns: Columns to read; all declared ones if empty.
        why: What needs the columns, for the error message.

    Yields:
        The columns in their declared types, without the rows of forgotten people: at least one
        block, which may be empty.

    Raises:
        ContractError: The table is not readable Parquet, has no rows to train on, lacks a declared
            column, or has a type that differs from the declaration or between files.
    """
    for block in _raw_blocks(context, columns, why):
        yield raw_table.as_declared(context, block)
        del block  # Free memory before the next one is read.


def unchanged_blocks(
    context: PartyContext, columns: Sequence[str]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield `blocks` of the table that this run has checked, each with its first row number.

    Raises:
        ContractError: As `blocks`, or the table has other rows than at the check.
    """
    rows, end = context.home.json("table")["rows"], 0
    # A feature holder reads its copy of the IDs, all other parties the table itself.
    copied = "desensitize" in context.stages
    read = blocks_of(context.home.table(IDS)) if copied else partial(blocks, context)
    for block in read(columns):
        begin, end = end, end + block.height
        if end > rows:
            break
        yield begin, block
        del block
    if end != rows:
        raise raw_table.changed(context)


def whole_table(
    context: PartyContext,
    columns: Sequence[str] = (),
    why: str = "the federation file declares",
) -> pl.DataFrame:
    """Return all rows of `blocks` in one frame."""
    return raw_table.as_declared(context, pl.concat(_raw_blocks(context, columns, why)))


def undeclared_table(context: PartyContext, columns: Sequence[str]) -> pl.DataFrame:
    """Return all rows of columns without applying declarations, to count what these change."""
    return pl.concat(_raw_blocks(context, columns, "the federation file declares"))


def _raw_blocks(context: PartyContext, columns: Sequence[str], why: str) -> Iterator[pl.DataFrame]:
    wanted = list(columns) or declared_columns(context)
    forgotten = forgotten_of(context.site)
    identity = context.federation.id.column
    needed = wanted if identity in wanted or not len(forgotten) else [identity, *wanted]
    paths = raw_table.files(context)
    schema = raw_table.schema(context, paths, needed, why)
    raw_table.require_declared(context, pl.DataFrame(schema=schema))
    height = blocks_read = 0
    read = chain.from_iterable(_batches(context, path, schema) for path in paths)
    for block in _gathered(read, rows_of_block(len(needed))):
        height += block.height
        blocks_read += 1
        yield raw_table.without_forgotten(context, forgotten, block).select(wanted)
        del block  # Free memory before the next one is read.
    if height == 0 and context.purpose == "train":
        raise raw_table.empty(context)
    if blocks_read == 0:
        yield pl.DataFrame(schema={name: schema[name] for name in wanted})


def _batches(
    context: PartyContext, path: Path, schema: dict[str, pl.DataType]
) -> Iterator[pl.DataFrame]:
    # No Arrow threads: they might outlive the interpreter. Pages are read on demand, so that row
    # groups may be of any size.
    try:
        file = pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
    except (pa.ArrowException, OSError, ValueError):
        file = None
    if file is None:
        raise unreadable(context.party)
    with file:
        rows = rows_of_block(len(schema))
        raw = match_names(raw_names(context, list(schema)), file.schema_arrow.names)
        batches = file.iter_batches(rows, columns=list(raw.values()), use_threads=False)
        while True:
            frame: pl.DataFrame | None = None
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                frame = _frame(batch, schema, raw)
                del batch
            except FAILURES:
                frame = None
            if frame is None:
                raise unreadable(context.party)
            yield frame


def _frame(
    batch: pa.RecordBatch, schema: dict[str, pl.DataType], raw: dict[str, str]
) -> pl.DataFrame:
    frame = polars_frame(batch).select(pl.col(column).alias(name) for name, column in raw.items())
    return frame if frame.schema == schema else frame.cast(pl.Schema(schema))


def _gathered(batches: Iterator[pl.DataFrame], most: int) -> Iterator[pl.DataFrame]:
    """Join the small batches of small row groups and files to blocks."""
    pending: list[pl.DataFrame] = []
    for batch in batches:
        if pending and sum(part.height for part in pending) + batch.height > most:
            yield _joined(pending)
        pending.append(batch)
        del batch
    if pending:
        yield _joined(pending)


def _joined(batches: list[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate batches, and release them."""
    block = pl.concat(batches, rechunk=True)
    batches.clear()
    return block
