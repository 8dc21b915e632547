"""Reading a party's own Parquet table: a block of rows at a time, or all of some columns."""

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

#: Name of a feature holder's copy of everybody's IDs in a run.
IDS = "ids"

#: Bytes of a column that are read from the file at once.
_BUFFER = 1 << 20


def blocks(
    context: PartyContext,
    columns: Sequence[str] = (),
    why: str = "the federation file declares",
) -> Iterator[pl.DataFrame]:
    """The party's table, block by block: it may be larger than memory.

    Args:
        context: The party's.
        columns: Which columns; all declared ones when absent.
        why: Who asks for them, for the error.

    Yields:
        The columns, with the types that their declaration asks for, without the rows of persons
        whom the party has forgotten: at least one block, which may be without rows.

    Raises:
        ContractError: No readable Parquet, no rows to train on, a declared column is missing, a
            type is not the declared one, or the files disagree about it.
    """
    for block in _raw_blocks(context, columns, why):
        yield raw_table.as_declared(context, block)
        del block  # Before the next one is read.


def unchanged_blocks(
    context: PartyContext, columns: Sequence[str]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """`blocks` of the table that this run has checked, each with the row at which it begins.

    Raises:
        ContractError: Also if it has other rows now.
    """
    rows, end = context.home.json("table")["rows"], 0
    # A feature holder has a copy of the IDs; elsewhere the table itself is read.
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
    """All rows that `blocks` gives, in one frame."""
    return raw_table.as_declared(context, pl.concat(_raw_blocks(context, columns, why)))


def undeclared_table(context: PartyContext, columns: Sequence[str]) -> pl.DataFrame:
    """All rows of some columns as the table has them, for counts of what declarations change."""
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
        del block  # Before the next one is read.
    if height == 0 and context.purpose == "train":
        raise raw_table.empty(context)
    if blocks_read == 0:
        yield pl.DataFrame(schema={name: schema[name] for name in wanted})


def _batches(
    context: PartyContext, path: Path, schema: dict[str, pl.DataType]
) -> Iterator[pl.DataFrame]:
    # The calling thread alone reads: Arrow's own might outlive the interpreter. Pages are read as
    # they are needed, so that the writer's row groups may be of any size.
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
    """Join small batches, as small row groups and small files give, to blocks."""
    pending: list[pl.DataFrame] = []
    for batch in batches:
        if pending and sum(part.height for part in pending) + batch.height > most:
            yield _joined(pending)
        pending.append(batch)
        del batch
    if pending:
        yield _joined(pending)


def _joined(batches: list[pl.DataFrame]) -> pl.DataFrame:
    """Batches as one, of which nothing else is kept."""
    block = pl.concat(batches, rechunk=True)
    batches.clear()
    return block
