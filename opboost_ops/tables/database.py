"""Reads the rows of a database query from PostgreSQL, SQLite or another SQLAlchemy database."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.config.source import Source
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.tables.columns import Expected, column_form
from opboost_ops.tables.files import Room

#: Rows per file.
_ROWS = 100_000

#: Maximum number of digits of a decimal.
_MAX_DIGITS = 38

#: SQLite actions that only read.
_READ_ACTIONS = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)

#: Types of declared columns in a result without rows.
_TYPES = {"text": pl.String, "number": pl.Int64, "date": pl.Date}


def database_parts(
    url: str,
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    """Write a query's result into Parquet files of some rows each; at least one file.

    The connection is read-only: the database refuses statements that write.

    Args:
        url: The database's URL; never shown in messages.
        source: The source with the query.
        party: Name of the party.
        folder: Folder for the files.
        columns: Declared columns by raw name, which determine the types of an empty result.
        room: Called with the size of each file before it is written.

    Returns:
        The files; and by column, why it is left out.

    Raises:
        ConfigError: There is no driver, the URL is malformed, or its SQLite file does not exist.
        ContractError: The query fails, or returns no table.
        ConnectionError: The database cannot be reached.
    """
    import sqlalchemy as sa

    failure: Exception
    try:
        engine = engine_of(url, party)
        _require_file(engine.url, party)
        try:
            with engine.connect() as connection:
                _only_read(connection)
                return _parts(connection, source.query or "", party, folder, columns, room)
        finally:
            engine.dispose()
    except sa.exc.OperationalError as error:
        if not url.startswith("sqlite"):
            failure = ConnectionError(
                f"The database of {party}'s table cannot be reached, or ended the query, as at a "
                "statement timeout."
            )
        else:
            failure = _refused(party, error)
    except sa.exc.SQLAlchemyError as error:
        failure = _refused(party, error)
    # Not chained: the foreign exception's text contains the query, and possibly the URL.
    raise failure from None


def engine_of(url: str, party: str) -> Any:
    """Create SQLAlchemy's engine for a URL; ``postgresql://`` uses psycopg.

    Args:
        url: The database's URL.
        party: Name of the party.

    Raises:
        ConfigError: There is no driver for it, or the URL is malformed.
    """
    import sqlalchemy as sa

    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    try:
        return sa.create_engine(url, poolclass=sa.pool.NullPool)
    except ImportError:
        problem = f"There is no driver for the database of {party} on this machine."
    except (sa.exc.ArgumentError, ValueError):
        problem = f"The database URL in site.yaml of {party} is malformed."
    raise ConfigError(
        problem,
        "PostgreSQL needs the extra postgres: pip install 'opboost-ops[postgres]'; a URL has the "
        "form postgresql://user:password@host/database, with %40 for an @ in a password.",
    )


def _require_file(url: Any, party: str) -> None:
    """Raise if a SQLite file does not exist; connecting would create it."""
    named = url.database if url.get_backend_name() == "sqlite" else None
    if named and named != ":memory:" and not named.startswith("file:") and not Path(named).exists():
        raise ConfigError(
            f"The SQLite file of {party}'s table does not exist.",
            "Correct its URL in site.yaml; an absolute path has four slashes: sqlite:////srv/people.db.",
        )


def _only_read(connection: Any) -> None:
    """Make a connection refuse all writes, including those of functions that a query calls."""
    connection.execution_options(postgresql_readonly=True)
    if connection.dialect.name == "sqlite":
        # A transaction is no protection: some SQLite statements commit, others create files.
        connection.connection.dbapi_connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READ_ACTIONS else sqlite3.SQLITE_DENY
        )


def _parts(
    connection: Any,
    query: str,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    # Verbatim: not embedded into another statement, and without parameters.
    result = connection.execution_options(
        stream_results=True, yield_per=_ROWS, no_parameters=True
    ).exec_driver_sql(query)
    if not result.returns_rows:
        raise ContractError(
            f"The query of {party}'s table returns no table.", "Give a SELECT in its site.yaml."
        )
    names = list(result.keys())
    if len(set(names)) < len(names):
        raise ContractError(
            f"The query of {party}'s table returns two columns with one name.",
            "Rename one with AS.",
        )
    columns = {column_form(raw): expected for raw, expected in columns.items()}
    parts: list[Path] = []
    left_out: dict[str, str] = {}
    for partition in result.partitions(_ROWS):
        frame = _frame(names, partition, columns, left_out)
        room(int(frame.estimated_size()))
        parts.append(folder / f"part-{len(parts)}.parquet")
        frame.write_parquet(parts[-1])
    if not parts:
        declared = {name: columns.get(column_form(name)) for name in names}
        kinds = {n: pl.Null if of is None else _TYPES[of.kind] for n, of in declared.items()}
        parts.append(folder / "part-0.parquet")
        pl.DataFrame(schema=kinds).write_parquet(parts[-1])
    return parts, left_out


def _frame(
    names: list[str], rows: Any, columns: Mapping[str, Expected], left_out: dict[str, str]
) -> pl.DataFrame:
    """Convert rows to a table; a column of mixed types is refused if declared, else left out."""
    frame = {}
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        expected = columns.get(column_form(name))
        series = _column(name, cells, expected)
        if series is not None:
            frame[name] = series
        elif expected is None:
            left_out[name] = "its cells have no common type"
        else:
            # By its declared name: raw names must not be logged.
            raise ContractError(
                f"The cells of column {expected.name} have no common type.",
                "Convert it in the query, for example by CAST.",
            )
    return pl.DataFrame(frame)


def _column(name: str, cells: Sequence[Any], expected: Expected | None) -> pl.Series | None:
    """Convert cells to a column; None if they have no common type."""
    if any(isinstance(cell, Decimal) for cell in cells):
        if expected is not None and expected.kind == "text":
            return (_decimals if expected.is_id else _codes)(name, cells)
        # Polars decimals support neither NaN nor infinity.
        cells = tuple(float(cell) if isinstance(cell, Decimal) else cell for cell in cells)
    with suppress(pl.exceptions.PolarsError, TypeError, OverflowError):
        series = pl.Series(name, list(cells), strict=False)
        if series.dtype == pl.Object:
            # For example UUIDs.
            series = pl.Series(name, [None if cell is None else str(cell) for cell in cells])
        if series.null_count() == cells.count(None):
            return series
    return None


def _codes(name: str, cells: Sequence[Any]) -> pl.Series | None:
    """Convert categories to texts: as numbers, one that is too long or infinite would fail all."""
    numbers = _numbers(cells)
    if numbers is None:
        return None
    return pl.Series(name, [None if n is None else _code(n) for n in numbers], pl.String)


def _code(number: Decimal) -> str:
    """Format a number in the form of categories."""
    text = f"{number if number else abs(number):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _numbers(cells: Sequence[Any]) -> list[Decimal | None] | None:
    try:
        numbers = [None if cell is None else Decimal(cell) for cell in cells]
    except (TypeError, ValueError, ArithmeticError):
        return None
    return [None if number is None or number.is_nan() else number for number in numbers]


def _decimals(name: str, cells: Sequence[Any]) -> pl.Series | None:
    """Convert IDs to decimals; as floats, IDs of more than 15 digits could become equal."""
    numbers = _numbers(cells)
    if numbers is None:
        return None
    values = [number for number in numbers if number is not None]
    if not all(number.is_finite() for number in values):
        return None
    digits = max((-int(number.as_tuple().exponent) for number in values), default=0)
    whole = max((number.adjusted() + 1 for number in values), default=0)
    if max(digits, 0) + max(whole, 0) > _MAX_DIGITS:
        return None
    return pl.Series(name, numbers, pl.Decimal(_MAX_DIGITS, max(digits, 0)))


def _refused(party: str, error: Exception) -> ContractError:
    return ContractError(
        f"The database of {party} refused the query of its table ({type(error).__name__}).",
        "Run the query manually as the same user; it is under tables in site.yaml.",
    )
