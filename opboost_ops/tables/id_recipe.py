r"""IDs as the federation's recipe makes them: texts in one form, and several columns joined.

Training, batch scoring, single rows, `opboost check` and `opboost forget` all make them here. What
each rule does, in the order in which they are applied:

- ``strip``: white space at both ends goes, and each run of it inside becomes one space; white space
  is Unicode's, the no-break space among it.
- ``nfc``: Unicode's canonical composition: u with a combining diaeresis becomes ü. Compatibility
  forms stay apart: a ligature is not its letters.
- ``casefold``: Unicode's full case folding, in NFC: ``Straße`` and ``STRASSE`` are one.
- ``digits``: a text of nothing but decimal digits, of whatever script, is written in 0 to 9 without
  leading zeros; any other text stays as it is.

Doing it twice changes nothing more. Values of several columns are joined by ``|``; inside a value
``|`` and ``\\`` get a ``\\`` before them, so that no two rows of values give one text.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import time

import polars as pl

from opboost_ops.config.federation import IdColumn, Normalisation
from opboost_ops.errors import ContractError
from opboost_ops.tables.columns import type_name


def _digits(text: str) -> str:
    if not text.isdecimal():
        return text
    return "".join(str(unicodedata.decimal(sign)) for sign in text).lstrip("0") or "0"


def _folded(text: str) -> str:
    """The form that canonical caseless matching compares (Unicode, D145), composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


_RULES: Mapping[Normalisation, Callable[[str], str]] = {
    "strip": lambda text: " ".join(text.split()),
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "casefold": _folded,
    "digits": _digits,
}

_JOINT, _ESCAPE = "|", "\\"


class Changes:
    """Changes by the rules, by declared column.

    Attributes:
        values: How many values each rule changed, those that an earlier one changed among them.
        missing: How many rows have no value, or none but white space.
    """

    def __init__(self) -> None:
        self.values: dict[str, Counter[Normalisation]] = {}
        self.missing: Counter[str] = Counter()


def person_ids(
    parts: Mapping[str, pl.Series], identity: IdColumn, changes: Changes | None = None
) -> pl.Series:
    """The IDs of rows.

    Args:
        parts: The columns that it is read from, by declared name, shape (n,) each.
        identity: The recipe.
        changes: Counts what is changed.

    Returns:
        Texts, shape (n,); none where a column has no value.

    Raises:
        ContractError: A column holds what has no one text, such as fractions or times.
    """
    columns = [_column(parts[name], name, identity, changes) for name in identity.parts]
    if len(columns) == 1:
        return columns[0].alias(identity.column)
    joined = pl.DataFrame([part.alias(str(i)) for i, part in enumerate(columns)]).select(
        pl.concat_str(
            [
                pl.col(str(i))
                .str.replace_all(_ESCAPE, _ESCAPE * 2, literal=True)
                .str.replace_all(_JOINT, _ESCAPE + _JOINT, literal=True)
                for i in range(len(columns))
            ],
            separator=_JOINT,
        )
    )
    return joined.to_series().alias(identity.column)


def id_of_text(text: str, identity: IdColumn) -> str:
    """The ID that the recipe makes of one that a person has typed: its values joined by ``|``.

    Args:
        text: As typed, in whatever case or form.
        identity: The recipe.
    """
    values = [text]
    if identity.columns:
        escaped = re.findall(r"(?:\\.|[^\\|])+", text)
        values = [re.sub(r"\\(.)", r"\1", value) for value in escaped]
    if len(values) != len(identity.parts):
        return text
    parts = {n: pl.Series([value]) for n, value in zip(identity.parts, values, strict=True)}
    return person_ids(parts, identity)[0] or text


def _column(values: pl.Series, name: str, identity: IdColumn, changes: Changes | None) -> pl.Series:
    texts = _texts(values, name)
    counted = texts.drop_nulls().value_counts()
    normalised: dict[str, str | None] = {}
    changed: Counter[Normalisation] = Counter()
    empty = texts.null_count()
    for raw, count in counted.iter_rows():
        text = raw
        for rule in identity.normalise:
            before, text = text, _RULES[rule](text)
            if text != before:
                changed[rule] += count
        normalised[raw] = text or None
        empty += 0 if text else count
    if changes is not None:
        changes.values.setdefault(name, Counter()).update(changed)
        changes.missing[name] += empty
    return texts.replace_strict(normalised, default=None, return_dtype=pl.String)


def _texts(values: pl.Series, name: str) -> pl.Series:
    """A column's values as texts: 42 and "42", a date and "1990-02-01" are one value."""
    kind = values.dtype
    if kind == pl.Datetime("us") or kind == pl.Datetime("ns") or kind == pl.Datetime("ms"):
        # Programs that know no dates write them as midnights.
        if not (values.drop_nulls().dt.time() == time()).all():
            kind = pl.Time()
        else:
            values, kind = values.cast(pl.Date), pl.Date()
    if kind == pl.Date:
        return values.dt.to_string("%Y-%m-%d")
    if kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String)
    raise ContractError(
        f"The ID is made of {name}, whose type {type_name(kind)} has no single text form.",
        "Write it as text, whole numbers or dates; in a query by CAST.",
    )
