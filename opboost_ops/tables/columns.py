"""Columns of a table: matching of names, and expected types."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl
import pyarrow as pa

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError

#: Names that pandas, R, Spark and Dask give to row numbers, and dunder names of programs.
_PROGRAM = re.compile(
    r"__\w+__|unnamed: ?\d+(\.\d+)*|level_\d+|_?c\d+_rowid|rownames|_rowid_", re.I
)

#: A name that pandas, polars or DuckDB give to a repeated column.
_SECOND = re.compile(r"(?P<first>.+?)(\.\d+|:\d+|_duplicated_\d+)")

#: Common names of row numbers; such columns are left out if they do number the rows.
_ROW_NUMBERS = {"index", "idx", "row", "rowid", "row_id", "rownum", "row_num", "row_number",
                "rownr", "nr", "no", "no.", "obs", "x", "#", "...1", "_c0", "id"}  # fmt: skip

#: Minimum number of rows; fewer may be numbered by chance.
_MIN_NUMBERED_ROWS = 10

#: Text types.
TEXTS = (pl.String, pl.Categorical, pl.Enum)

Kind = Literal["text", "number", "date"]


def column_form(name: str) -> str:
    """Return a column's name in the form in which names are compared: NFC, stripped."""
    return unicodedata.normalize("NFC", name).strip()


def match_names(raw: Mapping[str, str], present: Sequence[str]) -> dict[str, str]:
    """Match columns with those of a file, by `column_form`.

    Args:
        raw: Raw names by declared name.
        present: All names in the file.

    Returns:
        Names in the file by declared name, without missing and ambiguous ones.
    """
    by_form: dict[str, list[str]] = {}
    for name in present:
        by_form.setdefault(column_form(name), []).append(name)
    names: dict[str, str] = {}
    for declared, name in raw.items():
        near = by_form.get(column_form(name), [])
        if name in near:
            names[declared] = name
        elif len(near) == 1:
            names[declared] = near[0]
    return names


def require_unique(names: Sequence[str], what: str) -> None:
    """Raise if columns have the same name by `column_form`.

    Args:
        names: Names of all columns, in order.
        what: The table for the message, such as ``table of bank``.

    Raises:
        ContractError: Names the columns by position, because raw names must not be logged.
    """
    plain = list(map(column_form, names))
    repeated = [str(at) for at, name in enumerate(plain, 1) if name and plain.count(name) > 1]
    if repeated:
        raise ContractError(
            f"Columns {', '.join(repeated)} of the {what} share names.",
            "Give each column a unique name.",
        )


def technical_columns(frame: pl.DataFrame) -> dict[str, str]:
    """Return columns that a program has added, by name, with the reason for leaving them out."""
    why = {}
    for name in frame.columns:
        plain = column_form(name)
        second = _SECOND.fullmatch(plain)
        if not plain:
            why[name] = "it has no name, like row numbers of spreadsheets and data frames"
        elif _PROGRAM.fullmatch(plain):
            why[name] = "a program has added it, like row numbers of data frames"
        elif second and (plain.find("_duplicated_") > 0 or second["first"] in frame.columns):
            why[name] = f"it is a second column named {second['first']}"
        elif plain.lower() in _ROW_NUMBERS and numbers_rows(frame.get_column(name)):
            why[name] = "it numbers the rows"
    return why


def numbers_rows(values: pl.Series) -> bool:
    """True if values are 0, 1, 2, ... or 1, 2, 3, ... in some order.

    Args:
        values: A column, shape (n,).
    """
    if not values.dtype.is_integer() or len(values) < _MIN_NUMBERED_ROWS or values.null_count():
        return False
    first = values.min()
    spans = first in (0, 1) and int(values.max()) - int(first) == len(values) - 1  # type: ignore[arg-type]
    return spans and values.n_unique() == len(values)


def holds_numbers(kind: pl.DataType) -> bool:
    """True for types of numbers and booleans, and for a column of nulls, which has no type."""
    return kind.is_numeric() or kind in (pl.Boolean, pl.Null)


def type_name(kind: pl.DataType) -> str:
    """Return the name of a type, without its parameters.

    The parameters may contain values: the categories of an Enum, the fields of a Struct.

        >>> type_name(pl.List(pl.Enum(["a person's name"])))
        'List'
    """
    return kind.base_type().__name__


def holds_categories(kind: pl.DataType) -> bool:
    """True if the values of a type have a single text form, so that they can be categories."""
    dated = kind.is_temporal() and kind != pl.Duration
    return holds_numbers(kind) or dated or kind in TEXTS


def is_readable(kind: pa.DataType) -> bool:
    """True if polars can read an Arrow type, including nested ones."""
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    wide = pa.types.is_decimal(kind) and kind.precision > 38
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return not views and not wide and all(map(is_readable, inner))


def common_type(kinds: Sequence[pl.DataType]) -> pl.DataType | None:
    """Return one type for all values of a column in several files; None if there is none.

    Numbers can be combined with numbers, texts with texts, datetimes of the same zone with each
    other, and a column of nulls with anything. Integers must stay integers.

    Args:
        kinds: Type of the column in each file.
    """
    typed = [kind for kind in dict.fromkeys(kinds) if kind != pl.Null]
    if len(typed) < 2:
        return typed[0] if typed else kinds[0]
    if len({_family(kind) for kind in typed}) > 1:
        return None
    if _family(typed[0]) == "text":
        return pl.String()
    empty = [pl.DataFrame(schema={"x": kind}) for kind in typed]
    joined = pl.concat(empty, how="vertical_relaxed").schema["x"]
    whole = all(kind.is_integer() for kind in typed)
    return None if whole and not joined.is_integer() else joined


def _family(kind: pl.DataType) -> object:
    if kind.is_numeric():
        return "number"
    if kind in TEXTS:
        return "text"
    if isinstance(kind, pl.Datetime):
        return ("moment", kind.time_zone)
    return "length" if isinstance(kind, pl.Duration) else kind


def require_readable(party: str, kinds: dict[str, pl.DataType]) -> None:
    """Raise if a column has a type that Parquet cannot store, although polars writes it.

    Args:
        party: Name of the party.
        kinds: Types by column.

    Raises:
        ContractError: A column has 128-bit integers.
    """
    wide = [name for name, kind in kinds.items() if kind in (pl.Int128, pl.UInt128)]
    if wide:
        raise ContractError(
            f"The table of {party} stores {', '.join(wide)} as 128-bit integers.",
            "Write them as 64-bit integers, or as strings.",
        )


@dataclass(frozen=True)
class Expected:
    """A declared column.

    Attributes:
        name: Its declared name, for messages.
        kind: How cells of a CSV file are parsed: ``text`` as they are, ``number`` as numbers or
            booleans, ``date`` also as dates and times.
        values: Declared texts, which are never missing values.
        is_id: True if it is the ID, or a part of it.
    """

    name: str
    kind: Kind
    values: frozenset[str] = frozenset()
    is_id: bool = False


def expected_feature(name: str, feature: Feature) -> Expected:
    """Return the expected column of a feature."""
    if feature.type == "numeric":
        return Expected(name, "number" if feature.unit is None else "date")
    values = {*(feature.categories or ()), *feature.mapping}
    if isinstance(feature.missing, Fill):
        values.add(str(feature.missing.fill))
    return Expected(name, "text", frozenset(values))


def expected_label(label: Label) -> Expected | None:
    """Return the expected column of a label; None if no declaration determines its type."""
    if label.task == "regression":
        return Expected(label.column, "number")
    if not label.classes:
        return None
    numbers = all(isinstance(name, int) for name in label.classes)
    values = frozenset(map(str, label.classes))
    return Expected(label.column, "number" if numbers else "text", values)
