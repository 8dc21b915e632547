"""A failed expectation on a raw table as a fault: which column, how many rows, what to do."""

from opboost_ops.errors import Fault
from opboost_ops.pipeline.stage import Context
from opboost_ops.quality.report import Result

_NULL = "expect_column_values_to_not_be_null"
_RANGE = "expect_column_values_to_be_between"
_DIFFERENT = "expect_column_unique_value_count_to_be_between"


def place_of(context: Context, column: str) -> str:
    """Where a fault of a table is, as people find it.

    Args:
        context: The party's.
        column: Its declared name; empty for the whole table.
    """
    return f"{context.party}: {context.purpose} table{f', {column}' if column else ''}"


def result_fault(context: Context, result: Result) -> Fault:
    """The fault behind an expectation that does not hold. Reported at home only.

    Args:
        context: The party's.
        result: Of the check of its raw table.
    """
    place = place_of(context, result.column)
    party = context.declared
    declared = f"parties.{context.party}.features.{result.column}"
    horizontal = context.federation.learning == "horizontal"
    if horizontal:
        declared = f"features.{result.column}"
    label = party.label.column if party.label else None
    if not result.evaluated:
        return Fault(place, f"{result.words}: could not be checked", "check the column's type")
    if result.column == context.federation.id.column:
        return _of_the_id(place, result)
    if result.column == label:
        return _of_the_label(place, result, context)
    feature = party.features.get(result.column)
    if feature is not None:
        # Where a file would refuse `keep`, nobody is sent there.
        keeps = not (feature.mechanism or (horizontal and feature.type == "nominal"))
        if found := _of_a_feature(place, declared, result, keeps):
            return found
    return Fault(place, f"{result.words}: the check failed{_rows(result)}", "correct the table")


def _of_the_id(place: str, result: Result) -> Fault:
    if result.expectation == _NULL:
        return Fault(place, f"{_count(result, result.missing)} no ID", "leave those rows out")
    if result.expectation == "expect_column_values_to_be_unique":
        return Fault(
            place,
            f"{_count(result)} an ID that another row has, too",
            "keep one row a person, or let site.yaml make one of them: tables, aggregate",
        )
    return Fault(place, f"{_count(result)} an empty ID", "leave those rows out")


def _of_the_label(place: str, result: Result, context: Context) -> Fault:
    if result.expectation == _NULL:
        return Fault(place, f"{_count(result, result.missing)} no label", "leave those rows out")
    if result.expectation == _DIFFERENT:
        return Fault(
            place,
            "the label has fewer than two classes, or more than its task allows",
            "check the column, or declare another task",
        )
    if result.indicator == "class":
        return Fault(
            place,
            f"{_count(result)} a class that is not declared",
            f"declare all of them: parties.{context.party}.label.classes",
        )
    return Fault(place, f"{result.words}: the check failed{_rows(result)}", "correct the table")


def _of_a_feature(place: str, declared: str, result: Result, keeps: bool) -> Fault | None:
    if result.expectation == _NULL and "mostly" in result.arguments:
        return Fault(
            place,
            f"{_count(result, result.missing)} no value, more than checks.max_missing_share of "
            "policy.yaml",
            f"take {declared} out of the federation file, or raise that share",
        )
    if result.expectation == _NULL:
        keep = " or `missing: keep`" if keeps else ""
        return Fault(
            place,
            f"{_count(result, result.missing)} no value, and `missing` is forbid",
            f"declare `missing: {{fill: ...}}`{keep} at {declared}, or correct the table",
        )
    if result.expectation == _RANGE and "mostly" in result.arguments:
        return Fault(
            place,
            f"{_count(result)} a value outside bounds, more than checks.max_clipped_share of "
            "policy.yaml",
            f"widen {declared}.bounds, to what is publicly known, or raise that share",
        )
    if result.expectation == _RANGE:
        return Fault(
            place,
            f"{_count(result)} an infinite value or NaN",
            f"correct the table, or write null and declare `missing: {{fill: ...}}` at {declared}",
        )
    if result.expectation == _DIFFERENT:
        return Fault(
            place,
            "the column has fewer than two different values: a model learns nothing from it",
            f"take {declared} out of the federation file",
        )
    if result.indicator == "category":
        return Fault(
            place,
            f"{_count(result)} a category that is not declared",
            f"declare it in {declared}.categories, map it there by `mapping`, or name a `rest`",
        )
    return None


def _count(result: Result, count: int | None = None) -> str:
    found = count or result.unexpected
    if found is None:
        return "some rows have"
    share = f" ({found / result.rows:.1%})" if result.rows else ""
    return f"{found:,} of {result.rows or 0:,} rows{share} have"


def _rows(result: Result) -> str:
    return "" if result.unexpected is None else f" in {result.unexpected:,} rows"
