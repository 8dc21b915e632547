"""Reading and checking the table of `opboost init`, as `opboost check` would."""

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import sqlalchemy as sa

from opboost_ops.config.federation import RULES, IdColumn
from opboost_ops.config.source import ENVIRONMENT, is_source, is_text
from opboost_ops.errors import ConfigError, ContractError, Fault, require_none
from opboost_ops.exchange.sealed.ids import IdEncoder
from opboost_ops.tables.columns import Expected, holds_categories, type_name
from opboost_ops.tables.copies import copy
from opboost_ops.tables.id_recipe import person_ids
from opboost_ops.tables.local import read_local, source_of
from opboost_ops.tables.raw_values import label_values

#: Parameters of URLs that are secrets, such as ``sslpassword`` or ``secret_key``.
_SECRET = re.compile("password|passwd|secret|token", re.IGNORECASE)


def read_table(
    party: str,
    at: str,
    query: str | None,
    identity: str,
    dialect: Mapping[str, Any] | None = None,
) -> tuple[pl.DataFrame, Path | dict[str, Any], dict[str, str]]:
    """Read a party's table.

    Args:
        party: Name of the party.
        at: Path, pattern or URL.
        query: Query of a database.
        identity: Raw names of its ID columns, separated by commas, which are read as text.
        dialect: Declared entries of a CSV file's dialect.

    Returns:
        The table; its path or source entry in ``site.yaml``; and reasons by left-out column.

    Raises:
        OpBoostError: The table cannot be read.
    """
    if not is_source(at):
        _require_parquet_options(query, dialect)
        path = Path(at).resolve()
        frame, left_out = read_local(path)
        return frame, path, left_out
    if "://" not in at and not at.startswith(ENVIRONMENT):
        at = str(Path(at).resolve())
    source = source_of(at, query, dialect)
    if source.is_database and not query:
        raise ConfigError(f"The table of {party} is in a database.", "Add --query 'SELECT ...'.")
    columns = {
        name: Expected(name, "text", is_id=True) for name in {identity, *identity.split(",")}
    }
    with TemporaryDirectory(prefix="opboost-init-") as folder:
        target = Path(folder) / "table.parquet"
        try:
            copied = copy(source, party, target, columns, identity)
        except ConnectionError as error:
            raise ConfigError(str(error), "Try again when it can be reached.") from None
        frame = pl.read_parquet(target, glob=False)
    place = {"at": at, **source.model_dump(exclude={"at"}, exclude_defaults=True)}
    return frame, place, dict(copied.left_out)


def _require_parquet_options(query: str | None, dialect: Mapping[str, Any] | None) -> None:
    if query or dialect:
        raise ConfigError(
            f"A {'query' if query else 'dialect'} is given, but the table is a Parquet file.",
            "Leave it out: a query is for a database, and a dialect for CSV files.",
        )


def with_id(frame: pl.DataFrame, identity: str) -> tuple[IdColumn | None, pl.DataFrame]:
    """Return a table with one ID column, derived from several ones if necessary.

    Args:
        frame: The table.
        identity: Its ID columns, separated by commas.

    Returns:
        The recipe, and the table with the ID in place of its columns; None and the unchanged table
        for a single ID column.

    Raises:
        ContractError: A column has values without a canonical text.
    """
    columns = tuple(identity.split(","))
    several = len(set(columns)) == len(columns) > 1
    if identity in frame.columns or not several or set(columns) - set(frame.columns):
        return None, frame
    id_column = IdColumn(column="id", columns=columns, normalise=RULES, type="string")
    ids = person_ids({name: frame.get_column(name) for name in columns}, id_column)
    return id_column, frame.drop(columns).with_columns(ids)


def require_no_password(party: str, **named: str) -> None:
    """Reject secrets on the command line, which would be written into ``site.yaml``.

    Args:
        party: Name of the party.
        named: Values of ``--table`` and ``--store``.

    Raises:
        ConfigError: A URL contains a password or another secret.
    """
    for what, at in named.items():
        try:
            url = sa.make_url(at)
        except (sa.exc.ArgumentError, ValueError):
            continue
        if url.password or any(_SECRET.search(key) for key in url.query):
            name = f"{party.upper()}_{what.upper()}"
            raise ConfigError(
                f"The URL of {party}'s {what} contains a password, which would be written into "
                "site.yaml.",
                f"Set the environment variable {name} to the URL, for this party's processes "
                f"only, and pass --{what} {ENVIRONMENT}{name}.",
            )


def require_sound(
    party: str,
    frame: pl.DataFrame,
    place: Path | dict[str, Any],
    identity: str,
    label: str | None,
) -> set[str]:
    """Check a table as `opboost check` does.

    Args:
        party: Name of the party.
        frame: The table.
        place: Its path or source entry, from `read_table`.
        identity: Raw name of its ID column.
        label: The label's column, at the label holder.

    Returns:
        Types that the IDs may be declared as: ``integer``, ``string``, or either.

    Raises:
        ConfigError: A column is missing; IDs are missing, repeated, or of another type; or the
            label has missing values or one class. Lists all faults.
    """
    faults = [
        Fault(
            party,
            f"its table has no column {needed}",
            f"its columns are {', '.join(frame.columns)}",
        )
        for needed in (identity, *([] if label is None else [label]))
        if needed not in frame.columns
    ]
    require_none(faults, "tables", effect="; nothing was written")
    ids = frame.get_column(identity)
    types = _id_types(ids, place)
    column = f"{party}, {identity}"
    if not types <= {"integer", "string"}:
        faults.append(Fault(column, f"is of type {types.pop()}", "make it an integer or a string"))
    if not len(ids):
        faults.append(Fault(party, "its table has no rows", "name another one, or fill it first"))
    if gaps := ids.null_count():
        faults.append(Fault(column, f"{gaps:,} of {len(ids):,} rows have no ID", "leave them out"))
    if twice := int(ids.drop_nulls().is_duplicated().sum()):
        faults.append(
            Fault(
                column,
                f"{twice:,} of {len(ids):,} rows have an ID that another row has, too",
                "keep one row per person, or name another column by --id",
            )
        )
    if types == {"string"}:
        encoder = IdEncoder("string")
        encoder.messages(ids.drop_nulls().to_list())
        try:
            encoder.require_canonical()
        except ContractError as error:
            faults.append(Fault(column, error.problem.rstrip("."), error.remedy.rstrip(".")))
    if label is not None:
        values, place_of = frame.get_column(label), f"{party}, {label}"
        if not holds_categories(values.dtype):
            problem = f"a column of type {type_name(values.dtype)} has no classes"
            faults.append(Fault(place_of, problem, "convert it to numbers or strings"))
            require_none(faults, "tables", effect="; nothing was written")
        values = label_values(values)
        values = values.fill_nan(None) if values.dtype.is_float() else values
        if gaps := values.null_count():
            problem = f"{gaps:,} of {len(values):,} rows have no label"
            faults.append(Fault(place_of, problem, "leave those rows out"))
        if values.n_unique() < 2:
            faults.append(Fault(place_of, "it has one value only", "name another label by --label"))
    require_none(faults, "tables", effect="; nothing was written")
    return types


def _id_types(values: pl.Series, place: Path | dict[str, Any]) -> set[str]:
    """Return the possible types of IDs; in CSV, 12 is an integer or a string, 007 a string."""
    if values.dtype.is_integer():
        return {"integer"}
    if values.dtype != pl.String:
        return {values.dtype.base_type().__name__.lower()}
    numbers = values.drop_nulls().str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all()
    csv = isinstance(place, dict) and is_text(place["at"])
    return {"string", "integer"} if csv and numbers else {"string"}
