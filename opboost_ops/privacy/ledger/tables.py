"""How the tables of a party's database are declared, and which version they have."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

#: All tables of the database.
METADATA = sa.MetaData()

#: The version of the tables that this software writes.
VERSION = 1

#: A number that the database itself counts up.
COUNTED = sa.Integer

_KINDS: dict[Any, Any] = {int: sa.Integer, str: sa.Text, bool: sa.Boolean}


def table(
    name: str, key: Mapping[str, Any], /, *rules: Any, optional: str = "", **columns: Any
) -> sa.Table:
    """A table of the database; each column is a type, or the most characters of a text.

    Args:
        name: Of the table.
        key: The columns of its primary key.
        rules: Further constraints.
        optional: The column that may be empty.
        columns: All other columns.
    """

    def column(name: str, kind: Any, **more: Any) -> sa.Column[Any]:
        of = sa.String(kind) if isinstance(kind, int) else _KINDS.get(kind, kind)
        return sa.Column(name, of, **more)

    keys = [column(n, k, primary_key=True, autoincrement=k is COUNTED) for n, k in key.items()]
    others = [column(n, k, nullable=n == optional) for n, k in columns.items()]
    return sa.Table(name, METADATA, *keys, *others, *rules)


#: Which version they have.
SCHEMA = table("schema", {"version": COUNTED}, since=40)


def now() -> str:
    """This moment as a party's state has it: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def version_of(connection: sa.Connection) -> int:
    """The version of the tables: 0 where there are none.

    Args:
        connection: To the database.
    """
    if SCHEMA.name not in sa.inspect(connection).get_table_names():
        return 0
    return connection.execute(sa.select(sa.func.max(SCHEMA.c.version))).scalar() or 0


def set_version(connection: sa.Connection, version: int = VERSION) -> None:
    """Write down which version the tables have now.

    Args:
        connection: A transaction.
        version: The version.
    """
    known = sa.select(SCHEMA.c.version).where(SCHEMA.c.version == version)
    if connection.execute(known).first() is None:
        connection.execute(sa.insert(SCHEMA).values({"version": version, "since": now()}))
