"""Which expectations are judged by counts, and which Great Expectations is asked.

Great Expectations takes some 5 ms an expectation, whatever the rows, to make a graph of what it
computes, and more the more columns there are. The few expectations of which the built-in suites are
made are judged by `verdicts` instead, for columns of plain types. Whatever else there is (a column
of another type, one that is not there, a party's own expectation) it is asked itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from opboost_ops.quality.gathering import Blocks, Expectation, Repeated, is_text
from opboost_ops.quality.verdicts import (
    Between,
    DifferentValues,
    Exists,
    Extreme,
    Height,
    InSet,
    Lengths,
    Named,
    NotANumber,
    NotNull,
    RankGap,
    Type,
    Unique,
    Verdict,
)
from opboost_ops.scratch.arrays import Scratch

#: Indicators that look at names, and not at numbers.
_OF_NAMES = ("category", "class")

_INDICATED: Mapping[str, Callable[[Expectation], Verdict]] = {
    "category": Named,
    "class": Named,
    "not_a_number": NotANumber,
    "rank_gap": RankGap,
}


def verdict(
    expectation: Expectation, schema: pa.Schema, read: Blocks, scratch: Scratch | None = None
) -> Verdict | None:
    """How to judge an expectation of a built-in suite.

    Args:
        expectation: Its configuration.
        schema: The table's.
        read: The table, where a second look at some of it is needed.
        scratch: See `gathering`.

    Returns:
        None where Great Expectations is to be asked.
    """
    kind, kwargs = expectation["type"], expectation["kwargs"]
    column, indicator = kwargs.get("column"), expectation.get("indicator", "")
    if kind == "expect_table_row_count_to_equal":
        return Height(expectation)
    if column is None or schema.get_field_index(column) < 0:
        return None
    held = schema.field(column).type
    if pa.types.is_dictionary(held) and not is_text(held.value_type):
        return None
    numbers = pa.types.is_integer(held) or _is_float(held)
    if indicator:
        make = _INDICATED.get(indicator)
        plain = numbers or (indicator in _OF_NAMES and _is_plain(held))
        return make(expectation) if make and plain else None
    if kind == "expect_column_values_to_be_unique":
        plain = pa.types.is_integer(held) or is_text(held)
        return Unique(expectation, Repeated(column, held, read, scratch)) if plain else None
    known: Mapping[str, tuple[bool, Callable[[Expectation], Verdict]]] = {
        "expect_column_to_exist": (True, Exists),
        "expect_column_values_to_not_be_null": (numbers or _is_plain(held), NotNull),
        "expect_column_values_to_be_in_type_list": (numbers, lambda e: Type(e, held)),
        "expect_column_min_to_be_between": (pa.types.is_integer(held), lambda e: Extreme(e, 0)),
        "expect_column_max_to_be_between": (pa.types.is_integer(held), lambda e: Extreme(e, 1)),
        "expect_column_values_to_be_between": (numbers, Between),
        "expect_column_unique_value_count_to_be_between": (
            numbers or _is_plain(held),
            DifferentValues,
        ),
        "expect_column_value_lengths_to_be_between": (is_text(held), Lengths),
        "expect_column_values_to_be_in_set": (
            _are(kwargs.get("value_set"), (str,) if is_text(held) else (int, float))
            and (is_text(held) or numbers),
            InSet,
        ),
    }
    fits, make = known.get(kind, (False, Exists))
    return make(expectation) if fits else None


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


def _are(values: Sequence[Any] | None, kinds: tuple[type, ...]) -> bool:
    # A boolean is an integer to Python, and not to a reader of a suite.
    return bool(values) and all(
        isinstance(value, kinds) and not isinstance(value, bool) for value in values or ()
    )
