"""What the first stages would find in a party's table, reported at home, without a run.

It calls the code of the stages themselves, so that `opboost check` and a run cannot disagree. Where
a stage stops at its first fault, here every column is looked at, and all faults are told.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl

from opboost_ops.config.federation import Party
from opboost_ops.errors import Fault, OpBoostError
from opboost_ops.exchange.sealed.ids import Reader
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.domain_integers import domain_integers
from opboost_ops.pipeline.inputs.other_columns import local_table
from opboost_ops.pipeline.inputs.raw_blocks import blocks, whole_table
from opboost_ops.pipeline.inputs.raw_table import declared_columns
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.assemble import encode_label, own_columns
from opboost_ops.pipeline.steps.checks import raw_report
from opboost_ops.quality.report import Result


def rehearse(context: Context, folder: Path) -> list[Fault]:
    """All that check_table, preprocess, assemble and evaluate would find in a table by itself.

    Args:
        context: The party's, of no run; its purpose says which table. A source is copied before,
            see `sources.borrowed`.
        folder: Of the party's ``site.yaml``, where its ``expectations.yaml`` lies.
    """
    try:
        paths = raw_table.files(context)
    except OpBoostError as error:
        return [table_fault(context, error)]
    faults: list[Fault] = []
    bad: set[str] = set()
    for column in declared_columns(context):
        try:
            schema = raw_table.schema(context, paths, [column], "the federation file declares")
            raw_table.require_declared(context, pl.DataFrame(schema=schema))
        except OpBoostError as error:
            bad.add(column)
            faults.append(_fault(context, column, error))
    # A file that is no table is told once, not once for each column.
    faults = list({(f.problem, f.suggestion): f for f in reversed(faults)}.values())[::-1]
    if context.federation.id.column in bad:
        return faults
    sound = _without(context, bad)
    found = list(_content(sound, folder))
    return faults + (found or list(_values(sound)))


def common_people(contexts: Sequence[Context]) -> int | None:
    """How many IDs are in the tables of all parties; None if one of them has none to read.

    Only somebody who may read all parties' tables can ask, as on one machine.

    Args:
        contexts: A party each.
    """
    common: pl.Series | None = None
    for context in contexts:
        try:
            identity = [context.federation.id.column]
            ids = pl.concat([b.to_series().cast(pl.String) for b in blocks(context, identity)])
        except OpBoostError:
            return None
        if not len(ids):
            return None
        common = ids.unique() if common is None else common.filter(common.is_in(ids.implode()))
    return 0 if common is None else len(common)


def _without(context: Context, bad: set[str]) -> Context:
    """The context of a federation that does not declare some columns of the party's table."""
    federation = context.federation
    party = federation.parties[context.party]
    features = {name: feature for name, feature in party.features.items() if name not in bad}
    label = None if party.label and party.label.column in bad else party.label
    less = party.model_copy(update={"features": features, "label": label})
    parties = {**federation.parties, context.party: less}
    return replace(context, federation=federation.model_copy(update={"parties": parties}))


def _content(context: Context, folder: Path) -> Iterator[Fault]:
    """What the data-quality check of the raw table finds."""
    try:
        report = raw_report(context, folder)
    except OpBoostError as error:
        yield _fault(context, "", error)
        return
    for result in report.results:
        if not result.success:
            yield result_fault(context, result)


def _values(context: Context) -> Iterator[Fault]:
    """What later stages find in values that pass that check."""
    party, federation = context.declared, context.federation
    aligned = context.purpose == "train" or federation.scoring.mode != "local"
    if federation.learning == "vertical" and aligned:
        identity, reader = federation.id, Reader(federation.id.type)
        with _told(context, identity.column) as faults:
            for block in blocks(context, [identity.column]):
                reader.messages(block.to_series().to_list())
            reader.require_one_form()
        yield from faults
    with _told(context, "") as faults:
        for block in blocks(context, list(party.features)) if party.features else ():
            if party.role != "label_holder":
                domain_integers(context.federation, context.party, block)
            else:
                own_columns(context.federation, block, _categories(context, party, block))
    yield from faults
    if context.purpose == "train" and party.label is not None:
        yield from _label(context, party)
    yield from _local(context)


def _label(context: Context, party: Party) -> Iterator[Fault]:
    label = party.label
    assert label is not None
    with _told(context, label.column) as faults:
        values = whole_table(context, [label.column]).get_column(label.column)
        encode_label(values, label, None if len(values) < 2 else len(values))
    yield from faults


def _local(context: Context) -> Iterator[Fault]:
    """What mode ``local`` needs of other parties' columns in the label holder's own table."""
    federation = context.federation
    modes = federation.scoring.modes if context.purpose == "train" else (federation.scoring.mode,)
    if "local" not in modes or context.party != federation.label_holder:
        return
    for holder in federation.feature_holders:
        for name in federation.parties[holder].features:
            with _told(context, f"{holder}.{name}") as faults:
                local_table(context, holder, [name])
            yield from faults


def _categories(context: Context, party: Party, block: pl.DataFrame) -> dict[str, list[str]]:
    return {
        f"{context.party}.{name}": block.get_column(name).cast(pl.String).unique().to_list()
        for name, feature in party.features.items()
        if feature.type == "nominal"
    }


def table_fault(context: Context, error: OpBoostError) -> Fault:
    """An error about a party's whole table, as a fault.

    Args:
        context: The party's.
        error: What was raised.
    """
    return _fault(context, "", error)


@contextmanager
def _told(context: Context, column: str) -> Iterator[list[Fault]]:
    faults: list[Fault] = []
    try:
        yield faults
    except OpBoostError as error:
        faults.append(_fault(context, column, error))


def _fault(context: Context, column: str, error: OpBoostError) -> Fault:
    return Fault(place_of(context, column), error.problem, error.remedy)


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
