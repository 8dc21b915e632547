"""Scores where the label holder's people want them: files, S3, or a table of a database.

They lie in the folder of scores already, so that a delivery that fails loses nothing; and each is
whole or not at all, so that one that is tried again replaces the same.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import polars as pl
import pyarrow as pa

from opboost_ops.config.source import S3, Sink
from opboost_ops.errors import ConfigError, ContractError, OpBoostError
from opboost_ops.learning.registry.scores import Groups, write_groups
from opboost_ops.reports.display.spreadsheets import plain_texts
from opboost_ops.tables.database import engine_of
from opboost_ops.tables.s3 import S3Bucket
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.files import whole_file

#: By which rows of one delivery are told from those of another, in a database.
SCORED = "scored_rows"

#: Rows that a database is given at once.
_ROWS = 20_000

_KEPT = "The scores lie in the folder of scores; correct it, and run the task again."


def deliver(
    sink: Sink, groups: Groups, column: str, version: str, name: str, scratch: Scratch
) -> None:
    """Write scores to a sink.

    Args:
        sink: Where.
        groups: The scores, with the model's version as a column; at least one row group.
        column: Name of that column.
        version: The model's.
        name: Of what they follow from: the same rows by the same model in the same mode.
        scratch: Where a file waits until it is sent.

    Raises:
        OpBoostError: The sink does not take them.
        ConnectionError: It cannot be reached.
    """
    failure: Exception
    try:
        url, frames = sink.url(), map(_flat, groups())
        if url.startswith(S3):
            bucket, _, prefix = url.removeprefix(S3).partition("/")
            with scratch.file() as file:
                _write(file, frames, sink)
                file.seek(0)
                S3Bucket(bucket, prefix.strip("/")).put(f"{version}/{name}.{sink.format}", file)
        elif "://" in url:
            named = (frame.with_columns(pl.lit(name).alias(SCORED)) for frame in frames)
            _insert(url, sink.table or "", named, {column: version, SCORED: name})
        else:
            with whole_file(Path(url) / version / f"{name}.{sink.format}") as file:
                _write(file, frames, sink)
        return
    except ConnectionError:
        failure = ConnectionError("What scores_to in site.yaml names cannot be reached.")
    except OpBoostError as error:
        failure = type(error)(f"scores_to in site.yaml: {error.problem}", error.remedy)
    except OSError as error:
        failure = ConfigError(
            f"The folder that scores_to in site.yaml names cannot be written "
            f"({type(error).__name__}).",
            _KEPT,
        )
    # Without the foreign exception, whose text may show paths and rows.
    raise failure from None


def _flat(table: pa.Table) -> pl.DataFrame:
    """The scores as plain columns: lists and records as JSON, codes as texts."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    return frame.with_columns(
        pl.Series(
            name,
            [json.dumps(v) if v is not None else None for v in frame[name].to_list()],
            pl.String,
        )
        for name in nested
    )


def _write(file: IO[bytes], frames: Iterator[pl.DataFrame], sink: Sink) -> None:
    if sink.format == "csv":
        for number, frame in enumerate(frames):
            # The first column is the ID, by which programs join.
            safe = plain_texts(frame, frame.columns[:1])
            safe.write_csv(file, include_header=not number)
    else:
        oldest = pl.CompatLevel.oldest()
        write_groups(file, (frame.to_arrow(compat_level=oldest) for frame in frames))


def _insert(url: str, name: str, frames: Iterator[pl.DataFrame], same: dict[str, str]) -> None:
    """Replace the rows of one delivery in a table, in one transaction."""
    import sqlalchemy as sa

    schema, _, plain = name.rpartition(".")
    first = next(frames)
    types = {pl.String: sa.Text, pl.Boolean: sa.Boolean}
    names = _apart(first.columns)
    columns: list[sa.Column[Any]] = [
        sa.Column(
            names[column],
            sa.BigInteger if kind.is_integer() else types.get(type(kind), sa.Double),
        )
        for column, kind in first.schema.items()
    ]
    table = sa.Table(plain, sa.MetaData(), *columns, schema=schema or None)
    failure: Exception
    try:
        engine = engine_of(url, "the label holder")
        try:
            with engine.begin() as connection:
                table.create(connection, checkfirst=True)
                old = [table.c[names[column]] == value for column, value in same.items()]
                connection.execute(sa.delete(table).where(*old))
                for frame in chain([first], frames):
                    for rows in frame.iter_slices(_ROWS):
                        connection.execute(sa.insert(table), rows.rename(names).to_dicts())
            return
        finally:
            engine.dispose()
    except sa.exc.OperationalError as error:
        failure = ConnectionError()
        if url.startswith("sqlite"):
            failure = _refused(error)
    except sa.exc.SQLAlchemyError as error:
        failure = _refused(error)
    raise failure from None


def _apart(columns: Sequence[str]) -> dict[str, str]:
    """Names of a database's columns, which ignore case: the second of two gets a number."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for column in columns:
        name, number = column, 1
        while name.lower() in taken:
            number += 1
            name = f"{column}_{number}"
        taken.add(name.lower())
        names[column] = name
    return names


def _refused(error: Exception) -> ContractError:
    return ContractError(
        f"the database does not take the scores ({type(error).__name__}); nothing was written.",
        "Is there a table of that name with other columns? May this user make one? " + _KEPT,
    )
