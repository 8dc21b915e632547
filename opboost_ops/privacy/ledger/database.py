"""A party's own database: SQLite by default, PostgreSQL by URL; one writer at a time."""

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

#: Seconds that a writer waits for another one, who may be charging the cells of a large table.
PATIENCE = 900

#: Whose database it is, which one of theirs, and the fingerprint of their secret: one row.
_STATE = table("state", {"id": 36}, party=160, secret=16)

#: Asked each time that a party's state is opened, a dozen times a stage: as text, which need not be
#: compiled again for each database.
_NEWEST = str(sa.select(sa.func.max(SCHEMA.c.version)))
_WHOSE = str(sa.select(_STATE.c.id, _STATE.c.party, _STATE.c.secret))

#: Name of PostgreSQL's advisory lock under which a party's accounts are written.
_LOCK = 0x0B0057


#: A connection to a server that was opened in an earlier period of so many seconds is not reused.
_PERIOD = 30.0

_Read = TypeVar("_Read")

#: Databases whose tables this process has seen.
_COMPLETE: set[str] = set()


class Database:
    """An open database.

    Args:
        url: SQLAlchemy URL.

    Raises:
        ConfigError: It cannot be opened. The URL, which may hold a password, is not shown.
        ContractError: Its disk is full.
    """

    def __init__(self, url: str) -> None:
        engine: sa.Engine | None = None
        full = False
        version = 0
        try:
            engine = _sqlite(url) if url.startswith("sqlite") else sa.create_engine(url)
            self._engine = engine
            self._open: sa.Connection | None = None
            self._reader: sa.Connection | None = None
            self._is_read = False
            self._answers: dict[str, Any] = {}
            self._commits: int | None = None
            if self.file is not None:
                # SQLite gives its journals the mode of the file. It names the fault itself.
                with suppress(OSError):
                    os.close(os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600))
            if url in _COMPLETE:
                version = self._version()
            if version != VERSION:
                _COMPLETE.discard(url)
                with self._locked(engine) as connection:
                    version = version_of(connection)
                    if version in (0, VERSION):
                        METADATA.create_all(connection)
                        set_version(connection)
                        version = VERSION
                        _COMPLETE.add(url)
            self._opened = self._place()
        except sa.exc.DBAPIError as error:
            engine = None
            # SQLite makes its tables and its journal when it is opened.
            full = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        except (sa.exc.SQLAlchemyError, ImportError):
            engine = None
        if full:
            raise ContractError(
                "The ledger's database found no space left on a disk of its own.",
                "Free some, then do this again: nothing is lost.",
            )
        if engine is None:
            raise ConfigError(
                "The ledger's database cannot be opened.",
                "Check `ledger` in site.yaml, and that the database accepts this user.",
            )
        if version != VERSION:
            self.close()
            raise ConfigError(
                f"The tables of the ledger's database have version {version}; this software reads "
                f"version {VERSION} alone.",
                "Use the software that wrote them. Nothing was changed.",
            )

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that no other writer of this database is in.

        What is read in it cannot change before it is committed. One that is begun inside
        another is a part of it: committed with it, or not at all.
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
        """A connection for reading; inside a transaction, its own."""
        if self._open is not None:
            yield self._open
            return
        if self._is_read:
            with self._engine.connect() as connection:
                yield connection
            return
        # Connecting takes longer than most questions: one connection serves until `close`.
        if self._reader is None:
            self._reader = self._engine.connect()
        self._is_read = True
        try:
            yield self._reader
        finally:
            self._is_read = False
            # PostgreSQL would go on showing what was there at the first question.
            self._reader.rollback()

    def rows(self, query: sa.Select[Any]) -> list[Any]:
        """All rows of a query."""
        with self.reading() as connection:
            return list(connection.execute(query))

    def first(self, query: sa.Select[Any]) -> Any:
        """The first row of a query; None if there is none."""
        return next(iter(self.rows(query)), None)

    def column(self, query: sa.Select[Any]) -> list[Any]:
        """The values of a query of one column."""
        return [row[0] for row in self.rows(query)]

    def execute(self, *changes: sa.Executable) -> None:
        """Make changes, all of them or none."""
        with self.writing() as connection:
            for change in changes:
                connection.execute(change)

    def unless_changed(self, name: str, read: Callable[[], _Read]) -> _Read:
        """The cached result of a query, until anybody commits anything.

        Args:
            name: Of the query.
            read: Runs it; its result is shared, so nobody may change it.
        """
        if self._open is not None or self._is_read or self.file is None:
            return read()
        with self.reading() as connection:
            commits = connection.exec_driver_sql("PRAGMA data_version").scalar()
        if commits != self._commits:
            self._answers, self._commits = {}, commits
        if name not in self._answers:
            self._answers[name] = read()
        result: _Read = self._answers[name]
        return result

    def is_current(self) -> bool:
        """True if it may be reused: its file was not replaced, or its connection is recent.

        While it is in use it stays open: a query inside a transaction belongs to it.
        """
        return self.in_transaction or self._is_read or self._place() == self._opened

    def _place(self) -> tuple[float, ...]:
        """Which file it is; of a server, the present period."""
        if self.file is None:
            return (time.monotonic() // _PERIOD,)
        with suppress(OSError):
            status = self.file.stat()
            return (status.st_dev, status.st_ino)
        return ()

    @property
    def in_transaction(self) -> bool:
        """True if this object is inside `writing`."""
        return self._open is not None

    def is_empty(self) -> bool:
        """True if nothing was ever written: no release, and nothing that happened."""
        with self.reading() as connection:
            tables = set(METADATA.tables) & {"audit", "entries"}
            queries = (f"SELECT 1 FROM {table} LIMIT 1" for table in tables)  # noqa: S608
            return all(connection.exec_driver_sql(query).first() is None for query in queries)

    def identity(self, party: str, secret: str, *, fresh: bool = False) -> str:
        """The database's own id; a new database is the party's from now on.

        Args:
            party: Whose it must be.
            secret: Fingerprint of the party's secret, by which its people are hashed; empty where
                it has none yet.
            fresh: Whether another secret than before is accepted.

        Raises:
            ConfigError: It is another party's, or of another secret.
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
                "Check `ledger` in site.yaml: every party has a database of its own.",
            )
        if secret and row[2] != secret and (fresh or not row[2]):
            self.execute(sa.update(_STATE).values(secret=secret))
        elif secret and row[2] != secret:
            raise ConfigError(
                f"The secret of {party} is not the one under which its people were pinned.",
                "Put the former file back, from a backup. Without it, `opboost ledger recover "
                "SITE` ends all releases, and forgotten people must be forgotten again.",
            )
        return row[0]

    def _identity(self) -> tuple[str, str, str] | None:
        with self.reading() as connection:
            row = connection.exec_driver_sql(_WHOSE).first()
        return (row.id, row.party, row.secret) if row is not None else None

    def _version(self) -> int:
        """Of tables that were complete before; 0 where another file was put in their place."""
        with suppress(sa.exc.OperationalError, sa.exc.ProgrammingError), self.reading() as reader:
            return reader.exec_driver_sql(_NEWEST).scalar() or 0
        return 0

    @contextmanager
    def snapshot(self, at_rest: Callable[[], None]) -> Iterator[sa.Connection]:
        """All tables as they are at one moment in which no writer is in a transaction.

        On SQLite a writer can commit only when it has been read; on PostgreSQL at once.

        Args:
            at_rest: Called at that moment, while writers wait: for what must fit to the tables.
        """
        with self._engine.connect() as view:
            with self._locked(self._engine, commit=False):
                if view.dialect.name == "sqlite":
                    view.exec_driver_sql("BEGIN")
                else:
                    view.execution_options(isolation_level="REPEATABLE READ")
                # The first question fixes what all others see.
                version_of(view)
                at_rest()
            yield view
            view.rollback()

    def close(self) -> None:
        """Give the connections back."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        # Commits are counted for one connection.
        self._answers, self._commits = {}, None
        self._engine.dispose()

    @cached_property
    def file(self) -> Path | None:
        """Where it lies, if it is a file."""
        name = self._engine.url.database
        sqlite = self._engine.dialect.name == "sqlite"
        return Path(name) if sqlite and name and name != ":memory:" else None

    @contextmanager
    def _locked(self, engine: sa.Engine, *, commit: bool = True) -> Iterator[sa.Connection]:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                # The driver's own BEGIN would take the lock only at the first write.
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
    """A party's records of one matter in its database.

    Args:
        database: The party's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database


def plain_rows(connection: sa.Connection, query: sa.Select[Any]) -> list[Any]:
    """The rows of a query as the driver gives them, for many rows of texts and whole numbers.

    All at once: a half-read result would keep writers out.

    Args:
        connection: To the database.
        query: Without parameters.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute(str(query.compile(dialect=connection.dialect)))
        return list(cursor.fetchall())
    finally:
        cursor.close()


def has_tables(url: str) -> bool:
    """True if there may be a ledger at a URL already: nothing is made to find out.

    Args:
        url: SQLAlchemy URL.
    """
    if not url.startswith("sqlite:///"):
        return True
    return Path(url.removeprefix("sqlite:///")).is_file()


@lru_cache(maxsize=16)
def _sqlite(url: str) -> sa.Engine:
    # Kept for the process, because it keeps the statements that it has compiled, which takes
    # longer than to execute them; but never a connection, which would not survive a fork.
    engine = sa.create_engine(url, connect_args={"timeout": PATIENCE}, poolclass=sa.NullPool)
    sa.event.listen(engine, "connect", _manual)
    return engine


def _manual(connection: Any, _: Any) -> None:
    # sqlite3 begins no transaction of its own; those of `writing` are explicit.
    connection.isolation_level = None
