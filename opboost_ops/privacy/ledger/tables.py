"""The tables of a party's database: their declaration, export and import."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opboost_ops.errors import ArtifactError

#: All tables of the database.
METADATA = sa.MetaData()

#: Version of the tables that this software writes.
VERSION = 1

#: An integer key that the database generates.
COUNTED = sa.Integer

_KINDS: dict[Any, Any] = {int: sa.Integer, str: sa.Text, bool: sa.Boolean}


def table(
    name: str, key: Mapping[str, Any], /, *rules: Any, optional: str = "", **columns: Any
) -> sa.Table:
    """Declare a table of the database; each column is a type, or the maximum length of a string.

    Args:
        name: Name of the table.
        key: Columns of its primary key.
        rules: Further constraints.
        optional: The nullable column.
        columns: All other columns.
    """

    def column(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
        sql_type = sa.String(kind) if isinstance(kind, int) else _KINDS.get(kind, kind)
        return sa.Column(name, sql_type, **more)

    keys = [column(n, k, primary_key=True, autoincrement=k is COUNTED) for n, k in key.items()]
    others = [column(n, k, nullable=n == optional) for n, k in columns.items()]
    return sa.Table(name, METADATA, *keys, *others, *rules)


#: Version of the tables.
SCHEMA = table("schema", {"version": COUNTED}, since=40)


def now() -> str:
    """Return the current time as stored in a party's state: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def version_of(connection: sa.Connection) -> int:
    """Return the version of the tables: 0 if there are none.

    Args:
        connection: Connection to the database.
    """
    if SCHEMA.name not in sa.inspect(connection).get_table_names():
        return 0
    return connection.execute(sa.select(sa.func.max(SCHEMA.c.version))).scalar() or 0


def set_version(connection: sa.Connection, version: int = VERSION) -> None:
    """Record the version of the tables.

    Args:
        connection: A transaction.
        version: The version.
    """
    query = sa.select(SCHEMA.c.version).where(SCHEMA.c.version == version)
    if connection.execute(query).first() is None:
        connection.execute(sa.insert(SCHEMA).values({"version": version, "since": now()}))


#: Rows per batch.
_BLOCK = 1000


def table_names() -> list[str]:
    """Return the names of all tables, in order of their references."""
    return [table.name for table in METADATA.sorted_tables]


def lines_of(connection: sa.Connection, name: str) -> Iterator[bytes]:
    """Yield the rows of a table in key order, one line of JSON each.

    Args:
        connection: Connection to the database.
        name: One of `table_names`.
    """
    table = METADATA.tables[name]
    query = sa.select(table).order_by(*table.primary_key.columns)
    for row in connection.execution_options(yield_per=_BLOCK).execute(query):
        text = json.dumps(dict(row._mapping), sort_keys=True, separators=(",", ":"))
        yield text.encode() + b"\n"


def replace_rows(connection: sa.Connection, name: str, lines: Iterable[bytes]) -> int:
    """Replace the rows of a table.

    Args:
        connection: A transaction.
        name: One of `table_names`.
        lines: Lines from `lines_of`; a column that they omit keeps its default.

    Returns:
        The number of rows.

    Raises:
        ArtifactError: A line is not a row of this table.
    """
    table = METADATA.tables[name]
    connection.execute(sa.delete(table))
    rows: list[dict[str, Any]] = []
    count = 0
    for line in lines:
        rows.append(_row(table, line))
        count += 1
        if len(rows) == _BLOCK:
            connection.execute(sa.insert(table), rows)
            rows.clear()
    if rows:
        connection.execute(sa.insert(table), rows)
    _advance_sequence(connection, table)
    return count


def copy_file(source: Path, target: Path) -> None:
    """Copy a database atomically, readable by its owner only.

    Args:
        source: File of an SQLite database.
        target: Path of the copy.
    """
    temporary = target.with_name(f".{target.name}.new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)):
        pass
    reader, writer = sqlite3.connect(f"file:{source}?mode=ro", uri=True), sqlite3.connect(temporary)
    try:
        reader.backup(writer)
    finally:
        reader.close()
        writer.close()
    temporary.replace(target)


def copy_tables(connection: sa.Connection, end: str) -> None:
    """Copy every table under a new name, for a database that is not a file.

    Args:
        connection: A transaction.
        end: Suffix of the copies' names, chosen by this software; a number is appended if such
            copies exist.
    """
    existing = set(sa.inspect(connection).get_table_names())
    names = sorted(existing & {*METADATA.tables})
    ends = (f"{end}{f'_{i}' if i else ''}" for i in range(10_000))
    end = next(suffix for suffix in ends if not existing & {f"{name}_{suffix}" for name in names})
    for name in names:
        connection.execute(
            sa.text(f'CREATE TABLE "{name}_{end}" AS SELECT * FROM "{name}"')  # noqa: S608
        )


def copied_tables(connection: sa.Connection, end: str) -> list[str]:
    """Names of the tables that `copy_tables` has left.

    Args:
        connection: To the database.
        end: How the ends of the copies' names begin.
    """
    begins = tuple(f"{name}_{end}" for name in METADATA.tables)
    return [name for name in sa.inspect(connection).get_table_names() if name.startswith(begins)]


def _row(table: sa.Table, line: bytes) -> dict[str, Any]:
    row: Any = None
    with contextlib.suppress(ValueError):
        row = json.loads(line)
    if isinstance(row, dict) and set(row) <= set(table.columns.keys()):
        return row
    raise ArtifactError(f"A line is not a row of the table {table.name}.")


def _advance_sequence(connection: sa.Connection, table: sa.Table) -> None:
    """Continue PostgreSQL's sequence after the imported row numbers."""
    column = table.autoincrement_column
    if connection.dialect.name != "postgresql" or column is None:
        return
    last = connection.execute(sa.select(sa.func.max(column))).scalar()
    sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
    connection.execute(sa.select(sa.func.setval(sequence, last or 1, last is not None)))
