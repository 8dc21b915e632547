"""Data-quality checks between stages: reports stay at home, and a failed check fails its stage."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa

from opboost_ops.config.loading import site_file
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.pipeline import redaction
from opboost_ops.pipeline.evaluation.scores import PROBABILITY
from opboost_ops.pipeline.inputs import own_copy, raw_table
from opboost_ops.pipeline.inputs.holdout import require_trainable
from opboost_ops.pipeline.inputs.raw_blocks import blocks, whole_table
from opboost_ops.pipeline.inputs.raw_table import warn_undeclared
from opboost_ops.pipeline.stage import Context, Outcome, PartyContext
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite, tightened
from opboost_ops.quality.validation import Report
from opboost_ops.reports.checks import report_blocks
from opboost_ops.reports.display.html import document_html
from opboost_ops.tables.raw_values import has_undeclared_classes, require_plausible
from opboost_ops.tables.spill.tables import Blocks

#: Document with the verdict on the raw table; without it no later stage of the party runs.
CHECKED = "checked_table"


def check_table(context: Context) -> Outcome:
    """Check the raw table and record its fingerprint; a source is read here and never again."""
    if "desensitize" in context.stages:
        own_copy.take(context)
        return _check_unpinned(context)
    own_copy.copy_table(context)
    before = raw_table.fingerprint(context)
    require_trainable(context)
    table = _RawTable(context)
    outcome = check(context, {"raw_table": (_raw_suite(context), table)}, marks=CHECKED)
    if context.purpose == "train" and outcome.failure is None:
        _look_at_label(context)
    table_facts = {"table": {"sha256": before, "rows": table.rows}}
    return replace(outcome, documents={**outcome.documents, **table_facts})


def _check_unpinned(context: Context) -> Outcome:
    """Check the values of people who are about to be pinned."""
    rows = own_copy.unpinned_rows(context)
    if not rows:
        return Outcome(documents={CHECKED: {}}, summary={"checks": redaction.verdicts({})})
    first = context.purpose == "train" and rows == context.home.json("table")["rows"]
    party, identity, limits = context.declared, context.federation.id, context.policy.checks
    suite = (
        suites.first_release(party, identity, limits)
        if first
        else suites.new_rows(party, identity, limits, rows)
    )
    unpinned = (suite, lambda c: own_copy.unpinned_blocks(context, c))
    return check(context, {"raw_table": unpinned}, marks=CHECKED)


def raw_report(context: PartyContext, folder: Path) -> Report:
    """Return the report of `check_table` outside a run.

    Args:
        context: The party's context.
        folder: Folder of the party's ``site.yaml``.

    Raises:
        OpBoostError: The table cannot be read as declared, or ``expectations.yaml`` is invalid.
    """
    suite = tightened(_raw_suite(context), folder, "raw_table")
    return run_suite(suite, _RawTable(context))


def _raw_suite(context: PartyContext) -> suites.Suite:
    party, identity = context.declared, context.federation.id
    if context.purpose == "train":
        pinned = "desensitize" in context.stages
        suite = suites.first_release if pinned else suites.raw_table
        return suite(party, identity, context.policy.checks)
    rows = sum(block.height for block in blocks(context, [identity.column]))
    return suites.new_rows(party, identity, context.policy.checks, rows)


def _look_at_label(context: Context) -> None:
    label = context.declared.label
    if label is not None:
        kinds = raw_table.schema(context, raw_table.files(context), [label.column], "is the label")
        warn_undeclared(context, kinds.get(label.column))
        if label.column in kinds and has_undeclared_classes(label):
            # Before any release is charged.
            require_plausible(whole_table(context, [label.column]).get_column(label.column), label)


class _RawTable:
    """Reads the party's table block by block, and counts its rows."""

    def __init__(self, context: PartyContext) -> None:
        self._context = context
        self.rows = 0

    def __call__(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        rows = 0
        for block in blocks(self._context, columns):
            rows += block.height
            yield block
            del block  # Free memory before the next one is read.
        self.rows = rows


def check_release(context: Context) -> Outcome:
    """Check the preprocessed values, and the ranks or values about to be published.

    It checks the whole table, whose rows no other party selects, so that the verdict depends on no
    query.
    """
    preprocessed = context.home.table("preprocessed").drop_columns([own_copy.ROW])
    columns = context.columns()
    sources = {column.source: column.source_domain for column in columns}
    released = {column.name: column.domain for column in columns}
    if "rank" in context.stages:
        ranks = context.home.table("ranks")
        # Ranks for DPBoost number all outputs of the mechanism, present or not.
        dense = context.federation.training.trainer != "dpboost"
        leaves = (suites.release(released, ranks.num_rows, dense), ranks)
    else:
        values = context.home.table("randomised")
        leaves = (suites.preprocessed_table(released, values.num_rows), values)
    boundaries: dict[str, tuple[suites.Suite, pa.Table | Blocks]] = {"release": leaves}
    if preprocessed.num_rows:
        suite = suites.preprocessed_table(sources, preprocessed.num_rows)
        boundaries["preprocessed_table"] = (suite, preprocessed)
    return check(context, boundaries, marks="checked_release")


def check_frame(context: Context) -> Outcome:
    """Check the training frame."""
    table = context.home.table("frame")
    facts = context.home.json("frame")
    label = context.declared.label
    assert label is not None
    ranked = {name: domain.size for name, domain in domains_of(context).items()}
    rows = context.home.json("alignment")["train"]
    classes = len(facts["classes"])
    missing = context.federation.keeps_all
    suite = suites.training_frame(facts["names"], label, classes, rows, ranked, missing)
    return check(context, {"training_frame": (suite, table)}, marks="checked_frame")


def check_scores(context: Context) -> Outcome:
    """Check the scores of new rows before they are used."""
    files = context.registry.files(context.scored_version)
    facts = json.loads(files["columns.json"])
    scores = context.home.table("scores")
    suite = suites.scores(
        context.federation.id.column,
        facts["task"],
        facts["classes"],
        scores.num_rows,
        [name for name in scores.column_names if name.startswith(PROBABILITY)],
    )
    return check(context, {"scores": (suite, scores)}, marks="checked_scores")


def domains_of(context: Context) -> dict[str, Domain]:
    """Return the domains of all feature holders' columns, by full name.

    Args:
        context: The label holder's context.
    """
    return {
        f"{party}.{column.name}": column.domain
        for party in context.federation.feature_holders
        for column in context.columns(party)
    }


def bounds_of(context: Context) -> dict[str, tuple[int, int]]:
    """Return the bounds of `domains_of`, by full name.

    Args:
        context: The label holder's context.
    """
    return {name: (domain.lower, domain.upper) for name, domain in domains_of(context).items()}


def check(
    context: Context,
    boundaries: Mapping[str, tuple[suites.Suite, pa.Table | Blocks]],
    marks: str,
) -> Outcome:
    """Run suites, store their reports at home, and fail if one of them fails.

    Args:
        context: The party's context.
        boundaries: Suite, and table or function to read it block by block, by boundary.
        marks: Name of the document with the verdicts that `Context.require_passed` reads.
    """
    folder = site_file(context.party).parent
    begin = time.process_time()
    reports = {
        boundary: run_suite(tightened(suite, folder, boundary), table, context.home.scratch)
        for boundary, (suite, table) in boundaries.items()
    }
    processor = time.process_time() - begin
    files: dict[str, bytes] = {}
    for boundary, report in reports.items():
        files |= report_files(boundary, report)
    seconds = sum(report.seconds for report in reports.values())
    summary = {boundary: report.passed for boundary, report in reports.items()}
    failed = [boundary for boundary, passed in summary.items() if not passed]
    failure = None
    if failed:
        where = f"{context.federation.name}/{context.run}/quality"
        failure = ContractError(
            f"{context.party}: the data-quality check {', '.join(failed)} failed; nothing of "
            "this stage was published.",
            f"What failed is in {', '.join(f'{where}/{b}.html' for b in failed)} in the home "
            f"folder of {context.party}.",
        )
    return Outcome(
        documents={marks: summary},
        files=files,
        summary={"checks": redaction.verdicts(summary)},
        spent={"quality_seconds": seconds, "quality_processor_seconds": processor},
        failure=failure,
    )


def report_files(boundary: str, report: Report) -> dict[str, bytes]:
    """Return a report's files for the home: Great Expectations' result, and a page.

    Args:
        boundary: Base name of the files.
        report: The report.
    """
    title = f"Data quality: {boundary}"
    page = document_html(title, "No value of the table is shown.", report_blocks(report))
    return {f"quality/{boundary}.json": report.json(), f"quality/{boundary}.html": page.encode()}
