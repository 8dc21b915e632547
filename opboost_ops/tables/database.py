"""Rows of a database's query: PostgreSQL, SQLite, or whatever SQLAlchemy has a driver for."""

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

#: Rows at a time.
_ROWS = 100_000

#: Most digits of a decimal.
_DIGITS = 38

#: Actions of SQLite that change nothing.
_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)

#: Types of declared columns, where no row shows them.
_TYPES = {"text": pl.String, "number": pl.Int64, "date": pl.Date}


def database_parts(
    url: str,
    source: Source,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    """Read a database's answer into Parquet files of some rows each; at least one file.

    The query can only read: a statement that writes is refused by the database.

    Args:
        url: The database's; no message shows it.
        source: With the query.
        party: Whose it is.
        folder: For the files.
        columns: Declared columns by raw name, whose types an answer without rows has.
        room: Asked before each file is written.

    Returns:
        The files; and why columns are left out, by name.

    Raises:
        ConfigError: There is no driver, the URL is none, or names a SQLite file that is not there.
        ContractError: The query fails, or gives no table.
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
    # Without the foreign exception, whose text shows the query, and may show the URL.
    raise failure from None


def engine_of(url: str, party: str) -> Any:
    """SQLAlchemy's engine for a URL; ``postgresql://`` means psycopg's.

    Args:
        url: The database's.
        party: Whose it is.

    Raises:
        ConfigError: There is no driver for it, or it is no URL.
    """
    import sqlalchemy as sa

    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    try:
        return sa.create_engine(url, poolclass=sa.pool.NullPool)
    except ImportError:
        problem = f"There is no driver for the database of {party} on this machine."
    except (sa.exc.ArgumentError, ValueError):
        problem = f"What site.yaml of {party} names is not a database's URL."
    raise ConfigError(
        problem,
        "PostgreSQL needs the extra postgres: pip install 'opboost-ops[postgres]'; a URL has the "
        "form postgresql://user:password@host/database, with %40 for an @ in a password.",
    )


def _require_file(url: Any, party: str) -> None:
    """Refuse a SQLite file that is not there, which a connection would make."""
    named = url.database if url.get_backend_name() == "sqlite" else None
    if named and named != ":memory:" and not named.startswith("file:") and not Path(named).exists():
        raise ConfigError(
            f"The SQLite file of {party}'s table does not exist.",
            "Correct its URL in site.yaml; an absolute path has four slashes: sqlite:////srv/people.db.",
        )


def _only_read(connection: Any) -> None:
    """Let a connection refuse whatever writes, functions that a query calls included."""
    connection.execution_options(postgresql_readonly=True)
    if connection.dialect.name == "sqlite":
        # No transaction protects: SQLite commits some statements, and creates files by others.
        connection.connection.dbapi_connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
        )


def _parts(
    connection: Any,
    query: str,
    party: str,
    folder: Path,
    columns: Mapping[str, Expected],
    room: Room,
) -> tuple[list[Path], dict[str, str]]:
    # As it stands: neither a part of another statement, nor searched for parameters.
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
    """Rows as a table; a column that is none is refused if it is declared, and else left out."""
    frame = {}
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        expected = columns.get(column_form(name))
        series = _column(name, cells, expected)
        if series is not None:
            frame[name] = series
        elif expected is None:
            left_out[name] = "its cells are of types that no one column has"
        else:
            # By its declared name: a raw one gets into no log.
            raise ContractError(
                f"The column {expected.name} holds cells of types that no one column has.",
                "Convert it in the query, as by CAST.",
            )
    return pl.DataFrame(frame)


def _column(name: str, cells: Sequence[Any], expected: Expected | None) -> pl.Series | None:
    """Cells as a column; None where no one type has all of them."""
    if any(isinstance(cell, Decimal) for cell in cells):
        if expected is not None and expected.kind == "text":
            return (_decimals if expected.is_id else _codes)(name, cells)
        # Polars takes neither NaN nor an infinite one.
        cells = tuple(float(cell) if isinstance(cell, Decimal) else cell for cell in cells)
    with suppress(pl.exceptions.PolarsError, TypeError, OverflowError):
        series = pl.Series(name, list(cells), strict=False)
        if series.dtype == pl.Object:
            # UUIDs, for example.
            series = pl.Series(name, [None if cell is None else str(cell) for cell in cells])
        if series.null_count() == cells.count(None):
            return series
    return None


def _codes(name: str, cells: Sequence[Any]) -> pl.Series | None:
    """Categories as texts: as numbers, some are too long or infinite, and fail all other cells."""
    numbers = _numbers(cells)
    if numbers is None:
        return None
    return pl.Series(name, [None if n is None else _code(n) for n in numbers], pl.String)


def _code(number: Decimal) -> str:
    """A number's text in the form that categories have."""
    text = f"{number if number else abs(number):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _numbers(cells: Sequence[Any]) -> list[Decimal | None] | None:
    try:
        numbers = [None if cell is None else Decimal(cell) for cell in cells]
    except (TypeError, ValueError, ArithmeticError):
        return None
    return [None if number is None or number.is_nan() else number for number in numbers]


def _decimals(name: str, cells: Sequence[Any]) -> pl.Series | None:
    """IDs as decimals: as floats, those of more than 15 digits would become one."""
    numbers = _numbers(cells)
    if numbers is None:
        return None
    there = [number for number in numbers if number is not None]
    if not all(number.is_finite() for number in there):
        return None
    digits = max((-int(number.as_tuple().exponent) for number in there), default=0)
    whole = max((number.adjusted() + 1 for number in there), default=0)
    if max(digits, 0) + max(whole, 0) > _DIGITS:
        return None
    return pl.Series(name, numbers, pl.Decimal(_DIGITS, max(digits, 0)))


def _refused(party: str, error: Exception) -> ContractError:
    return ContractError(
        f"The database of {party} refuses the query of its table ({type(error).__name__}).",
        "Run the query by hand, as the same user; it is under tables in site.yaml.",
    )
