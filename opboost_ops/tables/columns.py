"""Columns of a table: their names, and the types that declarations expect."""

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

#: Names that pandas, R, Spark and Dask give to row numbers, and what programs wrap in underscores.
_PROGRAM = re.compile(
    r"__\w+__|unnamed: ?\d+(\.\d+)*|level_\d+|_?c\d+_rowid|rownames|_rowid_", re.I
)

#: A name that pandas, polars or DuckDB give to a second column of one name.
_SECOND = re.compile(r"(?P<first>.+?)(\.\d+|:\d+|_duplicated_\d+)")

#: Names under which people keep row numbers, which are left out where they are such.
_ROW_NUMBERS = {"index", "idx", "row", "rowid", "row_id", "rownum", "row_num", "row_number",
                "rownr", "nr", "no", "no.", "obs", "x", "#", "...1", "_c0", "id"}  # fmt: skip

#: Fewer rows are numbered by chance.
_NUMBERED = 10

#: Types of texts.
TEXTS = (pl.String, pl.Categorical, pl.Enum)

Kind = Literal["text", "number", "date"]


def column_form(name: str) -> str:
    """A column's name in the form in which names are compared: composed, without blanks around it.

    Args:
        name: As a file or a declaration has it.
    """
    return unicodedata.normalize("NFC", name).strip()


def found_names(raw: Mapping[str, str], present: Sequence[str]) -> dict[str, str]:
    """Under which name each column lies in a file, by `column_form`.

    Args:
        raw: Raw names by declared name.
        present: All names in the file.

    Returns:
        By declared name; one that is not there, or there twice in one form, is left out.
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


def require_different(names: Sequence[str], what: str) -> None:
    """Refuse columns that share a name by `column_form`.

    Args:
        names: Of all columns, in order.
        what: Whose they are, for the message, such as ``table of bank``.

    Raises:
        ContractError: By their places: raw names get into no log.
    """
    plain = list(map(column_form, names))
    twice = [str(at) for at, name in enumerate(plain, 1) if name and plain.count(name) > 1]
    if twice:
        raise ContractError(
            f"Columns {', '.join(twice)} of the {what} share names.",
            "Give each column a name of its own.",
        )


def technical_columns(frame: pl.DataFrame) -> dict[str, str]:
    """Why columns are left out that a program has added, by name.

    Args:
        frame: A party's table.
    """
    why = {}
    for name in frame.columns:
        plain = column_form(name)
        second = _SECOND.fullmatch(plain)
        if not plain:
            why[name] = "it has no name: spreadsheets and data frames number their rows so"
        elif _PROGRAM.fullmatch(plain):
            why[name] = "a program has added it: data frames number their rows so"
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
    if not values.dtype.is_integer() or len(values) < _NUMBERED or values.null_count():
        return False
    first = values.min()
    spans = first in (0, 1) and int(values.max()) - int(first) == len(values) - 1  # type: ignore[arg-type]
    return spans and values.n_unique() == len(values)


def holds_numbers(kind: pl.DataType) -> bool:
    """True if a column holds numbers, truth values, or nothing but gaps, which has no type.

    Args:
        kind: Of a raw column.
    """
    return kind.is_numeric() or kind in (pl.Boolean, pl.Null)


def type_name(kind: pl.DataType) -> str:
    """The name of a type, without what is inside it.

    The whole of it may hold values: the categories of an Enum, the fields of a Struct.

    Args:
        kind: Of a raw column.

        >>> type_name(pl.List(pl.Enum(["a person's name"])))
        'List'
    """
    return kind.base_type().__name__


def holds_categories(kind: pl.DataType) -> bool:
    """True if the values of a type have one text each, by which they are categories or classes.

    Args:
        kind: Of a raw column.
    """
    dated = kind.is_temporal() and kind != pl.Duration
    return holds_numbers(kind) or dated or kind in TEXTS


def is_readable(kind: pa.DataType) -> bool:
    """True if polars reads a type of Arrow at all, also inside others.

    Args:
        kind: Of a column.
    """
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    wide = pa.types.is_decimal(kind) and kind.precision > 38
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return not views and not wide and all(map(is_readable, inner))


def common_type(kinds: Sequence[pl.DataType]) -> pl.DataType | None:
    """One type for all values of a column that is in several files; None if there is none.

    Numbers go with numbers, texts with texts, moments of one zone with one another, and a column
    of nothing but gaps with any. Whole numbers stay whole.

    Args:
        kinds: Of the column in each file.
    """
    there = [kind for kind in dict.fromkeys(kinds) if kind != pl.Null]
    if len(there) < 2:
        return there[0] if there else kinds[0]
    if len({_family(kind) for kind in there}) > 1:
        return None
    if _family(there[0]) == "text":
        return pl.String()
    empty = [pl.DataFrame(schema={"x": kind}) for kind in there]
    joined = pl.concat(empty, how="vertical_relaxed").schema["x"]
    whole = all(kind.is_integer() for kind in there)
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
    """Refuse types that Parquet has no place for, although polars writes them.

    Args:
        party: Whose columns they are.
        kinds: By column.

    Raises:
        ContractError: Integers of 128 bits.
    """
    wide = [name for name, kind in kinds.items() if kind in (pl.Int128, pl.UInt128)]
    if wide:
        raise ContractError(
            f"The table of {party} keeps {', '.join(wide)} as 128-bit integers.",
            "Write them as 64-bit integers, or as strings.",
        )


@dataclass(frozen=True)
class Expected:
    """A declared column.

    Attributes:
        name: Its declared name, for messages.
        kind: How cells of a CSV file are read: as they are, as numbers or truth values, or as dates
            and times, too.
        values: Declared texts, which are never gaps.
        is_id: Whether it is the ID, or makes it.
    """

    name: str
    kind: Kind
    values: frozenset[str] = frozenset()
    is_id: bool = False


def expected_feature(name: str, feature: Feature) -> Expected:
    """A feature's column.

    Args:
        name: For messages.
        feature: Its declaration.
    """
    if feature.type == "numeric":
        return Expected(name, "number" if feature.unit is None else "date")
    values = {*(feature.categories or ()), *feature.mapping}
    if isinstance(feature.missing, Fill):
        values.add(str(feature.missing.fill))
    return Expected(name, "text", frozenset(values))


def expected_label(label: Label) -> Expected | None:
    """A label's column; None where nothing declares its type.

    Args:
        label: Its declaration.
    """
    if label.task == "regression":
        return Expected(label.column, "number")
    if not label.classes:
        return None
    numbers = all(isinstance(name, int) for name in label.classes)
    values = frozenset(map(str, label.classes))
    return Expected(label.column, "number" if numbers else "text", values)
