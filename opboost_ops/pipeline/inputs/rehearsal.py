"""Faults that the first stages would report for a party's table, found at home without a run.

It calls the code of the stages themselves, so that `opboost check` and a run cannot disagree. A
stage stops at its first fault; this module checks every column and reports all faults.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.config.federation import Party
from opboost_ops.errors import Fault, OpBoostError
from opboost_ops.exchange.sealed.ids import IdEncoder
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import encode_label, own_columns
from opboost_ops.pipeline.inputs.other_columns import local_table
from opboost_ops.pipeline.inputs.own_copy import borrowed
from opboost_ops.pipeline.inputs.raw_blocks import blocks, whole_table
from opboost_ops.pipeline.inputs.raw_table import declared_columns, domain_integers
from opboost_ops.pipeline.stage import PartyContext
from opboost_ops.pipeline.steps.checks import raw_report
from opboost_ops.quality.validation import Finding


def rehearse(context: PartyContext, folder: Path) -> list[Fault]:
    """Return all faults that check_table, preprocess, assemble and evaluate would report.

    Args:
        context: The party's context outside a run; its purpose selects the table. A source must
            have been copied, see `own_copy.borrowed`.
        folder: Folder of the party's ``site.yaml`` and ``expectations.yaml``.
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
    # Report an unreadable file once, not once per column.
    faults = list({(f.problem, f.suggestion): f for f in reversed(faults)}.values())[::-1]
    if context.federation.id.column in bad:
        return faults
    sound = _without(context, bad)
    content_faults = list(_content(sound, folder))
    return faults + (content_faults or list(_values(sound)))


def table_warnings(context: PartyContext, folder: Path) -> list[str]:
    """Return warnings of the check of a party's training table, one sentence per column.

    Args:
        context: The party's context. Unreadable tables give an empty list; other checks report
            them.
        folder: Folder of the party's ``site.yaml`` and ``expectations.yaml``.
    """
    try:
        with borrowed(replace(context, purpose="train")) as lent:
            findings = raw_report(lent, folder).findings
            warned = [finding for finding in findings if finding.severity != "critical"]
            return [f"{place_of(lent, f.column)}: warning: {f.description}." for f in warned]
    except OpBoostError:
        return []


def common_people(contexts: Sequence[PartyContext]) -> int | None:
    """Return the number of IDs in the tables of all parties; None if a table has no readable IDs.

    This needs read access to all parties' tables, as on a single machine.

    Args:
        contexts: One context per party.
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


def _without(context: PartyContext, bad: set[str]) -> PartyContext:
    """Return the context of a federation without some columns of the party's table."""
    federation = context.federation
    party = federation.parties[context.party]
    features = {name: feature for name, feature in party.features.items() if name not in bad}
    label = None if party.label and party.label.column in bad else party.label
    less = party.model_copy(update={"features": features, "label": label})
    parties = {**federation.parties, context.party: less}
    return replace(context, federation=federation.model_copy(update={"parties": parties}))


def _content(context: PartyContext, folder: Path) -> Iterator[Fault]:
    """Yield faults of the data-quality check of the raw table."""
    try:
        report = raw_report(context, folder)
    except OpBoostError as error:
        yield _fault(context, "", error)
        return
    rows = {row["column"]: row for row in report.profile}
    for finding in report.findings:
        if finding.severity == "critical":
            yield finding_fault(context, finding, rows.get(finding.column, {}))


def _values(context: PartyContext) -> Iterator[Fault]:
    """Yield faults of later stages in values that pass the data-quality check."""
    party, federation = context.declared, context.federation
    aligned = context.purpose == "train" or federation.scoring.mode != "local"
    if federation.learning == "vertical" and aligned:
        identity, encoder = federation.id, IdEncoder(federation.id.type)
        with _collect_fault(context, identity.column) as faults:
            for block in blocks(context, [identity.column]):
                encoder.messages(block.to_series().to_list())
            encoder.require_canonical()
        yield from faults
    with _collect_fault(context, "") as faults:
        for block in blocks(context, list(party.features)) if party.features else ():
            if party.role != "label_holder":
                domain_integers(context.federation, context.party, block)
            else:
                own_columns(context.federation, block, _categories(context, party, block))
    yield from faults
    if context.purpose == "train" and party.label is not None:
        yield from _label(context, party)
    yield from _local(context)


def _label(context: PartyContext, party: Party) -> Iterator[Fault]:
    label = party.label
    assert label is not None
    with _collect_fault(context, label.column) as faults:
        values = whole_table(context, [label.column]).get_column(label.column)
        encode_label(values, label, None if len(values) < 2 else len(values))
    yield from faults


def _local(context: PartyContext) -> Iterator[Fault]:
    """Yield faults of columns that mode ``local`` needs in the label holder's own table."""
    federation = context.federation
    modes = federation.scoring.modes if context.purpose == "train" else (federation.scoring.mode,)
    if "local" not in modes or context.party != federation.label_holder:
        return
    for holder in federation.feature_holders:
        for name in federation.parties[holder].features:
            with _collect_fault(context, f"{holder}.{name}") as faults:
                local_table(context, holder, [name])
            yield from faults


def _categories(context: PartyContext, party: Party, block: pl.DataFrame) -> dict[str, list[str]]:
    return {
        f"{context.party}.{name}": block.get_column(name).cast(pl.String).unique().to_list()
        for name, feature in party.features.items()
        if feature.type == "nominal"
    }


def table_fault(context: PartyContext, error: OpBoostError) -> Fault:
    """Convert an error about a party's whole table to a fault.

    Args:
        context: The party's context.
        error: The error.
    """
    return _fault(context, "", error)


@contextmanager
def _collect_fault(context: PartyContext, column: str) -> Iterator[list[Fault]]:
    faults: list[Fault] = []
    try:
        yield faults
    except OpBoostError as error:
        faults.append(_fault(context, column, error))


def _fault(context: PartyContext, column: str, error: OpBoostError) -> Fault:
    return Fault(place_of(context, column), error.problem, error.remedy)


def place_of(context: PartyContext, column: str) -> str:
    """Return the location of a table's fault for people.

    Args:
        context: The party's context.
        column: The column's declared name; empty for the whole table.
    """
    return f"{context.party}: {context.purpose} table{f', {column}' if column else ''}"


def finding_fault(context: PartyContext, finding: Finding, row: Mapping[str, Any]) -> Fault:
    """Return the fault for a failed expectation, for the party's own people only.

    Args:
        context: The party's context.
        finding: A finding of the check of its raw table.
        row: The column's row in the profile.
    """
    party, name = context.declared, finding.column
    place = place_of(context, name)
    horizontal = context.federation.learning == "horizontal"
    declared = f"features.{name}" if horizontal else f"parties.{context.party}.features.{name}"
    if not finding.evaluated or finding.measure == "usable":
        problem = f"{finding.description}: could not be checked"
        return Fault(place, problem, "check the column's type")
    if name == context.federation.id.column:
        texts = _ID_FAULTS.get(finding.measure)
    elif party.label is not None and name == party.label.column:
        texts = _LABEL_FAULTS.get(finding.measure)
    elif name in party.features:
        texts = _FEATURE_FAULTS.get(finding.measure)
    else:
        texts = None
    if texts is None:
        return Fault(place, f"{finding.description}: the check failed", "correct the table")
    # Suggest `keep` only for features that may declare it.
    feature = party.features.get(name)
    keeps = feature is not None and not (
        feature.mechanism or (horizontal and feature.type == "nominal")
    )
    facts = {
        "rows": _rows(row, finding.measure),
        "at": declared,
        "party": context.party,
        "keep": " or `missing: keep`" if keeps else "",
    }
    return Fault(place, *(text.format(**facts) for text in texts))


#: Problem and fix by profile measure.
_ID_FAULTS = {
    "gaps": ("{rows} no ID", "leave those rows out"),
    "repeated": (
        "{rows} an ID that another row has, too",
        "keep one row per person, or let site.yaml make one of them: tables, aggregate",
    ),
    "empty": ("{rows} an empty ID", "leave those rows out"),
}
_LABEL_FAULTS = {
    "gaps": ("{rows} no label", "leave those rows out"),
    "distinct": (
        "the label has fewer than two classes, or more than its task allows",
        "check the column, or declare another task",
    ),
    "undeclared": (
        "{rows} a class that is not declared",
        "declare all of them: parties.{party}.label.classes",
    ),
}
_FEATURE_FAULTS = {
    "gaps": (
        "{rows} no value, and `missing` is forbid",
        "declare `missing: {{fill: ...}}`{keep} at {at}, or correct the table",
    ),
    "missing_share": (
        "{rows} no value, more than checks.max_missing_share of policy.yaml",
        "take {at} out of the federation file, or raise that share",
    ),
    "outside_share": (
        "{rows} a value outside bounds, more than checks.max_clipped_share of policy.yaml",
        "widen {at}.bounds, to what is publicly known, or raise that share",
    ),
    "not_finite": (
        "{rows} an infinite value or NaN",
        "correct the table, or write null and declare `missing: {{fill: ...}}` at {at}",
    ),
    "distinct": (
        "the column has fewer than two different values: a model learns nothing from it",
        "take {at} out of the federation file",
    ),
    "undeclared": (
        "{rows} a category that is not declared",
        "declare it in {at}.categories, map it there by `mapping`, or name a `rest`",
    ),
}


def _rows(row: Mapping[str, Any], measure: str) -> str:
    count = row.get({"missing_share": "missing", "outside_share": "outside"}.get(measure, measure))
    rows = row.get("rows")
    if not count or not rows:
        return "some rows have"
    return f"{count:,} of {rows:,} rows ({count / rows:.1%}) have"
