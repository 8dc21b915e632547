"""Data-quality checks between the stages: their reports stay at home, and a failed one fails."""

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

#: Where the verdict on the raw table stays, without which no later stage of the party runs.
CHECKED = "checked_table"


def check_table(context: Context) -> Outcome:
    """Check the raw table, and remember which one it was; a source is read now, and never again."""
    # What an earlier attempt found does not hold for a table that is read anew.
    (context.home.folder / f"{CHECKED}.json").unlink(missing_ok=True)
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
    """The report of `check_table`, for callers that only ask.

    Args:
        context: The party's.
        folder: Of the party's ``site.yaml``.

    Raises:
        OpBoostError: The table cannot be read as declared, or ``expectations.yaml`` is faulty.
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
            # Before a release of anybody's is charged.
            require_plausible(whole_table(context, [label.column]).get_column(label.column), label)


class _RawTable:
    """The party's table block by block, which counts its rows."""

    def __init__(self, context: PartyContext) -> None:
        self._context = context
        self.rows = 0

    def __call__(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        rows = 0
        for block in blocks(self._context, columns):
            rows += block.height
            yield block
            del block  # Before the next one is read.
        self.rows = rows


def check_release(context: Context) -> Outcome:
    """Check the preprocessed values, and what is about to be published: ranks, or values.

    It judges the whole table, which nobody else chooses: what it says follows from no question.
    """
    preprocessed = context.home.table("preprocessed").drop_columns([own_copy.ROW])
    columns = context.columns()
    sources = {column.source: column.source_domain for column in columns}
    released = {column.name: column.domain for column in columns}
    if "rank" in context.stages:
        ranks = context.home.table("ranks")
        # Ranks for DPBoost are those of all values, present or not.
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
    """Check the scores of new rows before anybody uses them."""
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
    """Domains of all columns of feature holders, by full name.

    Args:
        context: The label holder's.
    """
    return {
        f"{party}.{column.name}": column.domain
        for party in context.federation.feature_holders
        for column in context.columns(party)
    }


def bounds_of(context: Context) -> dict[str, tuple[int, int]]:
    """Their ends, by full name.

    Args:
        context: The label holder's.
    """
    return {name: (domain.lower, domain.upper) for name, domain in domains_of(context).items()}


def check(
    context: Context,
    boundaries: Mapping[str, tuple[suites.Suite, pa.Table | Blocks]],
    marks: str,
) -> Outcome:
    """Run suites, keep their reports at home, and fail if one of them fails.

    Args:
        context: The party's.
        boundaries: Suite and table, or how to read it block by block, by boundary.
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
    """A report's files in the home: Great Expectations' result, and a page.

    Args:
        boundary: Their name.
        report: What was found.
    """
    title = f"Data quality: {boundary}"
    page = document_html(title, "No value of the table is shown.", report_blocks(report))
    return {f"quality/{boundary}.json": report.json(), f"quality/{boundary}.html": page.encode()}
