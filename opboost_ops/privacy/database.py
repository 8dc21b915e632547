"""A party's own database: SQLite by default, PostgreSQL by URL; one writer at a time."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from opboost_ops.errors import ConfigError, ContractError

#: All tables of the database.
METADATA = sa.MetaData()

#: Seconds that a writer waits for another one.
PATIENCE = 60

#: Name of PostgreSQL's advisory lock under which a party's accounts are written.
_LOCK = 0x0B0057


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
        try:
            engine = _sqlite(url) if url.startswith("sqlite") else sa.create_engine(url)
            if url not in _COMPLETE:
                with self._locked(engine) as connection:
                    METADATA.create_all(connection)
                _COMPLETE.add(url)
            else:
                engine.connect().close()
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
        self._engine = engine
        self._open: sa.Connection | None = None

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
        with self._engine.connect() as connection:
            yield connection

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    @contextmanager
    def _locked(self, engine: sa.Engine) -> Iterator[sa.Connection]:
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
            connection.commit()


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
