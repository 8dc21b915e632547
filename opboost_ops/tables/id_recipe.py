r"""Derives IDs by the federation's recipe: normalises texts, and joins several columns.

Training, batch scoring, single rows, `opboost check` and `opboost forget` all derive IDs here. The
rules, in the order in which they are applied:

- ``strip``: white space at both ends is removed, and inside each run of it becomes one space; white
  space is Unicode's, including the no-break space.
- ``nfc``: Unicode's canonical composition: u with a combining diaeresis becomes ü. Compatibility
  forms stay distinct: a ligature is not equal to its letters.
- ``casefold``: Unicode's full case folding, in NFC: ``Straße`` and ``STRASSE`` become equal.
- ``digits``: a text of decimal digits only, in any script, is written in 0 to 9 without leading
  zeros; other texts are unchanged.

The rules are idempotent. Values of several columns are joined by ``|``; ``|`` and ``\\`` inside a
value are escaped by ``\\``, so that different values never give the same text.
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
    """Return the form that canonical caseless matching compares (Unicode, D145), in NFC."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


_RULES: Mapping[Normalisation, Callable[[str], str]] = {
    "strip": lambda text: " ".join(text.split()),
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "casefold": _folded,
    "digits": _digits,
}

_JOINT, _ESCAPE = "|", "\\"


class Changes:
    """Counts of changes by the rules, by declared column.

    Attributes:
        values: Number of values that each rule changed, including ones changed by earlier rules.
        missing: Number of rows whose value is missing or only white space.
    """

    def __init__(self) -> None:
        self.values: dict[str, Counter[Normalisation]] = {}
        self.missing: Counter[str] = Counter()


def person_ids(
    parts: Mapping[str, pl.Series], identity: IdColumn, changes: Changes | None = None
) -> pl.Series:
    """Derive the IDs of rows.

    Args:
        parts: The ID's columns by declared name, shape (n,) each.
        identity: The recipe.
        changes: Counts the changes.

    Returns:
        Texts, shape (n,); null if a column has no value.

    Raises:
        ContractError: A column's values have no single text form, such as fractions or times.
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
    """Derive the ID from one that a person has typed, with its values joined by ``|``.

    Args:
        text: The typed text, in any case or form.
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
    """Convert a column's values to texts: 42 equals "42", and a date equals "1990-02-01"."""
    kind = values.dtype
    if kind == pl.Datetime("us") or kind == pl.Datetime("ns") or kind == pl.Datetime("ms"):
        # Programs without a date type write dates as midnights.
        if not (values.drop_nulls().dt.time() == time()).all():
            kind = pl.Time()
        else:
            values, kind = values.cast(pl.Date), pl.Date()
    if kind == pl.Date:
        return values.dt.to_string("%Y-%m-%d")
    if kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String)
    raise ContractError(
        f"The ID is derived from {name}, whose type {type_name(kind)} has no single text form.",
        "Write it as text, integers or dates; in a query by CAST.",
    )
