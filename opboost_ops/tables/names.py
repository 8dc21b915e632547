"""Names of a table's columns: which lies where, and which come from a program, not from people."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

import polars as pl

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
