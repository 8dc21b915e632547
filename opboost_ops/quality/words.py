"""Expectations in plain words."""

from collections.abc import Mapping
from typing import Any

#: The largest finite float: an interval up to it means no more than "finite".
LARGEST = 1.7976931348623157e308

_FIXED = {
    "category": "every value is one of the declared categories",
    "class": "every value is one of the declared classes",
    "not_a_number": "every value is a number",
    "rank_gap": "every rank from 1 to the highest is there",
    "expect_column_to_exist": "the column is there",
    "expect_column_values_to_be_unique": "every value occurs once",
    "expect_column_values_to_be_in_type_list": "every value is an integer",
}
_RANGED = {
    "expect_column_value_lengths_to_be_between": "the text's length is",
    "expect_column_unique_value_count_to_be_between": "the number of different values is",
    "expect_column_min_to_be_between": "the least value is",
    "expect_column_max_to_be_between": "the highest value is",
}


def words(expectation: str, arguments: Mapping[str, Any]) -> str:
    """An expectation in plain words.

    Args:
        expectation: Its type, or the indicator that it is about.
        arguments: Its declared arguments, without the column.
    """
    if expectation in _FIXED:
        return _FIXED[expectation]
    if expectation in _RANGED:
        return f"{_RANGED[expectation]} {_interval(arguments)}"
    if expectation == "expect_table_row_count_to_equal":
        return f"the table has {arguments['value']:,} rows"
    if expectation == "expect_column_values_to_not_be_null":
        if "mostly" not in arguments:
            return "no value is missing"
        return f"at most {100 * (1 - arguments['mostly']):.4g} % of the rows have no value"
    if expectation == "expect_column_values_to_be_between":
        if arguments.get("max_value") == LARGEST:
            return "every value is finite"
        who = "every value is"
        if "mostly" in arguments:
            who = f"at least {100 * arguments['mostly']:.4g} % of the values are"
        return f"{who} {_interval(arguments)}"
    if expectation == "expect_column_values_to_be_in_set":
        return "every value is one of " + ", ".join(map(str, arguments["value_set"]))
    if expectation == "population_stability_index":
        return (
            "population stability index {index:.3f}; drift is above {most:g} and above chance "
            "({chance:.3f}); missing {missing:.2%}, then {missing_then:.2%}; clipped "
            "{clipped:.2%}, then {clipped_then:.2%}"
        ).format(**arguments)
    name = expectation.removeprefix("expect_").replace("_", " ")
    name = name.removeprefix("column ").removeprefix("table ")
    declared = ", ".join(f"{key} {value}" for key, value in arguments.items())
    return f"{name} ({declared})" if declared else name


def _interval(arguments: Mapping[str, Any]) -> str:
    low, high = map(_number, (arguments.get("min_value"), arguments.get("max_value")))
    if low == high:
        return f"{low}"
    if high is None:
        return f"at least {low}"
    if low is None:
        return f"at most {high}"
    return f"between {low} and {high}"


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
