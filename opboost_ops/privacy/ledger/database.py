"""A party's database: SQLite by default, PostgreSQL by URL; one writer at a time."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import sqlalchemy as sa

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.privacy.ledger.tables import (
    METADATA,
    SCHEMA,
    VERSION,
    set_version,
    table,
    version_of,
)

#: Seconds that a writer waits for the lock; another writer may be charging a large table.
PATIENCE = 900

#: Identity of the database: its ID, its party, and the fingerprint of the secret; one row.
_STATE = table("state", {"id": 36}, party=160, secret=16)

#: These queries run whenever a party's state is opened, about a dozen times per stage. As text,
#: they need not be compiled for each database.
_NEWEST = str(sa.select(sa.func.max(SCHEMA.c.version)))
_IDENTITY = str(sa.select(_STATE.c.id, _STATE.c.party, _STATE.c.secret))

#: Number of PostgreSQL's advisory lock for writing a party's database.
_LOCK = 0x0B0057


#: Connections to a server are not reused across periods of this many seconds.
_PERIOD = 30.0

_Read = TypeVar("_Read")

#: URLs of databases whose tables this process has verified.
_VERIFIED: set[str] = set()


class Database:
    """An open database.

    Args:
        url: SQLAlchemy URL.

    Raises:
        ConfigError: It cannot be opened. The message omits the URL, which may contain a password.
        ContractError: The disk is full.
    """

    def __init__(self, url: str) -> None:
        engine: sa.Engine | None = None
        full = False
        version = 0
        try:
            engine = (
                _sqlite(url)
                if url.startswith("sqlite")
                else sa.create_engine(url, hide_parameters=True)
            )
            self._engine = engine
            self._open: sa.Connection | None = None
            self._reader: sa.Connection | None = None
            self._is_reading = False
            self._cache: dict[str, Any] = {}
            self._commits: int | None = None
            if self.file is not None:
                # SQLite gives its journals the file's mode. SQLite reports errors itself.
                with suppress(OSError):
                    os.close(os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600))
            if url in _VERIFIED:
                version = self._version()
            if version != VERSION:
                _VERIFIED.discard(url)
                with self._locked(engine) as connection:
                    version = version_of(connection)
                    if version in (0, VERSION):
                        METADATA.create_all(connection)
                        set_version(connection)
                        version = VERSION
                        _VERIFIED.add(url)
            self._opened = self._place()
        except sa.exc.DBAPIError as error:
            engine = None
            # SQLite creates tables and journals when the database is opened.
            full = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        except (sa.exc.SQLAlchemyError, ImportError):
            engine = None
        if full:
            raise ContractError(
                "The disk of the ledger's database is full.",
                "Free space and try again: nothing is lost.",
            )
        if engine is None:
            raise ConfigError(
                "The ledger's database cannot be opened.",
                "Check `ledger` in site.yaml, and that the database accepts this user.",
            )
        if version != VERSION:
            self.close()
            raise ConfigError(
                f"The tables of the ledger's database have version {version}, but this software "
                f"supports only version {VERSION}.",
                "Use the software version that wrote them. Nothing was changed.",
            )

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a transaction under an exclusive write lock.

        Data read inside it cannot change before the commit. A nested call joins the outer
        transaction: both commit, or neither.
        """
        if self._open is not None:
            yield self._open
            return
        with self._locked(self._engine) as connection:
            self._open = connection
            try:
                yield connection
            finally:
                self._open = None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Return a connection for reading; inside a transaction, that of the transaction."""
        if self._open is not None:
            yield self._open
            return
        if self._is_reading:
            with self._engine.connect() as connection:
                yield connection
            return
        # Connecting takes longer than most queries, so one connection is reused until `close`.
        if self._reader is None:
            self._reader = self._engine.connect()
        self._is_reading = True
        try:
            yield self._reader
        finally:
            self._is_reading = False
            # In an open transaction, PostgreSQL could return the state at the first query.
            self._reader.rollback()

    def rows(self, query: sa.Select[Any]) -> list[Any]:
        """Return all rows of a query."""
        with self.reading() as connection:
            return list(connection.execute(query))

    def first(self, query: sa.Select[Any]) -> Any:
        """Return the first row of a query; None if there is none."""
        return next(iter(self.rows(query)), None)

    def column(self, query: sa.Select[Any]) -> list[Any]:
        """Return the values of a one-column query."""
        return [row[0] for row in self.rows(query)]

    def execute(self, *changes: sa.Executable) -> None:
        """Execute statements in one transaction."""
        with self.writing() as connection:
            for change in changes:
                connection.execute(change)

    def unless_changed(self, name: str, read: Callable[[], _Read]) -> _Read:
        """Return the cached result of a query, unless anyone has committed since.

        Args:
            name: Cache key of the query.
            read: Runs the query; callers must not modify its shared result.
        """
        if self._open is not None or self._is_reading or self.file is None:
            return read()
        with self.reading() as connection:
            commits = connection.exec_driver_sql("PRAGMA data_version").scalar()
        if commits != self._commits:
            self._cache, self._commits = {}, commits
        if name not in self._cache:
            self._cache[name] = read()
        result: _Read = self._cache[name]
        return result

    def is_current(self) -> bool:
        """Return whether it can be reused: the file was not replaced, or the connection is recent.

        It stays open while in use, because a query inside a transaction belongs to it.
        """
        return self.in_transaction or self._is_reading or self._place() == self._opened

    def _place(self) -> tuple[float, ...]:
        """Identify the file (device and inode); for a server, the current period."""
        if self.file is None:
            return (time.monotonic() // _PERIOD,)
        with suppress(OSError):
            status = self.file.stat()
            return (status.st_dev, status.st_ino)
        return ()

    @property
    def in_transaction(self) -> bool:
        """True inside `writing`."""
        return self._open is not None

    def is_empty(self) -> bool:
        """Return whether nothing was ever written: no entry and no audit event."""
        with self.reading() as connection:
            tables = set(METADATA.tables) & {"audit", "entries"}
            queries = (f"SELECT 1 FROM {table} LIMIT 1" for table in tables)  # noqa: S608
            return all(connection.exec_driver_sql(query).first() is None for query in queries)

    def identity(self, party: str, secret: str, *, fresh: bool = False) -> str:
        """Return the database's ID; a new database is assigned to the party.

        Args:
            party: The expected party.
            secret: Fingerprint of the party's secret, which hashes its people; empty if it has
                none yet.
            fresh: Whether to accept a different secret than before.

        Raises:
            ConfigError: The database belongs to another party, or to another secret.
        """
        row = self._identity()
        if row is None:
            with self.writing() as connection:
                row = self._identity()
                if row is None:
                    row = (str(uuid4()), party, secret)
                    values = dict(zip(("id", "party", "secret"), row, strict=True))
                    connection.execute(sa.insert(_STATE).values(values))
        if row[1] != party:
            raise ConfigError(
                f"The database of {party} belongs to {row[1]}.",
                "Check `ledger` in site.yaml: every party needs its own database.",
            )
        if secret and row[2] != secret and (fresh or not row[2]):
            self.execute(sa.update(_STATE).values(secret=secret))
        elif secret and row[2] != secret:
            raise ConfigError(
                f"The secret of {party} differs from the one under which its people were pinned.",
                "Restore the former secret from a backup. Without it, `opboost ledger recover "
                "SITE` ends all releases, and forgotten people must be forgotten again.",
            )
        return row[0]

    def _identity(self) -> tuple[str, str, str] | None:
        with self.reading() as connection:
            row = connection.exec_driver_sql(_IDENTITY).first()
        return (row.id, row.party, row.secret) if row is not None else None

    def _version(self) -> int:
        """Return the version of tables that existed before; 0 if the file was replaced."""
        with suppress(sa.exc.OperationalError, sa.exc.ProgrammingError), self.reading() as reader:
            return reader.exec_driver_sql(_NEWEST).scalar() or 0
        return 0

    @contextmanager
    def snapshot(self, at_rest: Callable[[], None]) -> Iterator[sa.Connection]:
        """Return a consistent view of all tables, taken while no writer is in a transaction.

        On SQLite, a writer can commit only after the view is closed; on PostgreSQL at once.

        Args:
            at_rest: Called at that moment, while writers wait, for data that must match the tables.
        """
        with self._engine.connect() as view:
            with self._locked(self._engine, commit=False):
                if view.dialect.name == "sqlite":
                    view.exec_driver_sql("BEGIN")
                else:
                    view.execution_options(isolation_level="REPEATABLE READ")
                # The first query starts the snapshot that all later queries see.
                version_of(view)
                at_rest()
            yield view
            view.rollback()

    def close(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        # The commit counter is specific to one connection.
        self._cache, self._commits = {}, None
        self._engine.dispose()

    @cached_property
    def file(self) -> Path | None:
        """Path of the database file; None for a server or an in-memory database."""
        name = self._engine.url.database
        sqlite = self._engine.dialect.name == "sqlite"
        return Path(name) if sqlite and name and name != ":memory:" else None

    @contextmanager
    def _locked(self, engine: sa.Engine, *, commit: bool = True) -> Iterator[sa.Connection]:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                # The driver's own BEGIN would acquire the lock only at the first write.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            elif engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            if commit:
                connection.commit()
            else:
                connection.rollback()


class Records:
    """Base class of repositories: one kind of record in a party's database.

    Args:
        database: The party's database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database


def plain_rows(connection: sa.Connection, query: sa.Select[Any]) -> list[Any]:
    """Return the raw rows of a query, for many rows of strings and integers.

    The result is read completely: an open cursor would block writers.

    Args:
        connection: Connection to the database.
        query: A query without parameters.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute(str(query.compile(dialect=connection.dialect)))
        return list(cursor.fetchall())
    finally:
        cursor.close()


def has_tables(url: str) -> bool:
    """Return whether a ledger may exist at a URL, without creating one.

    Args:
        url: SQLAlchemy URL.
    """
    if not url.startswith("sqlite:///"):
        return True
    return Path(url.removeprefix("sqlite:///")).is_file()


@lru_cache(maxsize=16)
def _sqlite(url: str) -> sa.Engine:
    # Engines are cached per process because they cache compiled statements, and compiling takes
    # longer than executing. Connections are not cached: they would not survive a fork.
    # Parameters have people's hashes; an error with its text may reach a terminal or a log.
    engine = sa.create_engine(
        url,
        connect_args={"timeout": PATIENCE},
        poolclass=sa.NullPool,
        hide_parameters=True,
    )
    sa.event.listen(engine, "connect", _disable_autobegin)
    return engine


def _disable_autobegin(connection: Any, _: Any) -> None:
    # sqlite3 must not begin transactions; `writing` begins them explicitly.
    connection.isolation_level = None
