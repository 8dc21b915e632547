"""Data-quality checks between the stages: at home a full report, outside pass or fail."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from opboost_ops.config.loading import site_file
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import whole_numbers
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.models.registry import Registry
from opboost_ops.privacy import attacks
from opboost_ops.quality import suites
from opboost_ops.quality.checks import run_suite
from opboost_ops.quality.gathering import Blocks
from opboost_ops.quality.report import Report
from opboost_ops.quality.tightening import tightened
from opboost_ops.scratch.arrays import let_go, slices
from opboost_ops.stages import brevity, raw_table, sources
from opboost_ops.stages.positive_class import warn_undeclared
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.score_columns import PROBABILITY
from opboost_ops.stages.stage import Context, Outcome
from opboost_ops.stages.weights import require_trainable

DISCLOSES = "whether each data-quality check of this stage passed (a bit a check)"


def check_table(context: Context) -> Outcome:
    """Check the raw table, and remember which one it was; a source is read now, and never again."""
    sources.take(context)
    before = raw_table.fingerprint(context)
    require_trainable(context)
    table = _RawTable(context)
    outcome = check(context, {"raw_table": (_raw_suite(context), table)})
    if context.purpose == "train":
        _warn_of_classes(context)
    document = {"sha256": before, "rows": table.rows}
    return Outcome(
        documents={"table": document},
        files=outcome.files,
        summary=outcome.summary,
        discloses=outcome.discloses,
        quality_seconds=outcome.quality_seconds,
        quality_processor_seconds=outcome.quality_processor_seconds,
        failure=outcome.failure,
    )


def raw_report(context: Context, folder: Path) -> Report:
    """What `check_table` finds, for whoever only asks.

    Args:
        context: The party's.
        folder: Of the party's ``site.yaml``.

    Raises:
        OpBoostError: The table cannot be read as declared, or ``expectations.yaml`` is faulty.
    """
    suite = tightened(_raw_suite(context), folder, "raw_table", _absent(context))
    return run_suite(suite, _RawTable(context))


def _raw_suite(context: Context) -> suites.Suite:
    party, identity = context.federation.parties[context.party], context.federation.id
    if context.purpose == "train":
        return suites.raw_table(party, identity, context.policy.checks)
    rows = sum(block.height for block in blocks(context, [identity.column]))
    return suites.new_rows(party, identity, context.policy.checks, rows)


def _absent(context: Context) -> tuple[str, ...]:
    """Columns that expectations may name, and that this table need not have."""
    label = context.federation.parties[context.party].label
    return (label.column,) if label is not None and context.purpose == "score" else ()


def _warn_of_classes(context: Context) -> None:
    label = context.federation.parties[context.party].label
    if label is not None:
        kinds = raw_table.schema(context, raw_table.files(context), [label.column], "is the label")
        warn_undeclared(context, kinds.get(label.column))


class _RawTable:
    """The party's table block by block, which counts its rows."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.rows = 0

    def __call__(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        rows = 0
        for block in blocks(self._context, columns):
            rows += block.height
            table = block.to_arrow()
            del block
            yield table
            del table  # Before the next one is read.
        self.rows = rows


def check_release(context: Context) -> Outcome:
    """Check the preprocessed values, and what is about to be published: ranks, or values.

    It judges the whole table, which nobody else chooses: what it says follows from no question.
    """
    preprocessed = context.home.table("preprocessed")
    columns = context.columns()
    sources = {column.source: column.source_domain for column in columns}
    released = {column.name: column.domain for column in columns}
    if "rank" in context.stages:
        ranks = context.home.table("ranks")
        leaves = (suites.release(released, ranks.num_rows, _dense(context)), ranks)
    else:
        values = context.home.table("randomised")
        leaves = (suites.preprocessed_table(released, values.num_rows), values)
    outcome = check(
        context,
        {
            "preprocessed_table": (
                suites.preprocessed_table(sources, preprocessed.num_rows),
                preprocessed,
            ),
            "release": leaves,
        },
        marks="checked_release",
    )
    most = context.policy.checks.max_attack_gain
    return outcome if most is None or outcome.failure else _gated(context, outcome, most)


def _gated(context: Context, outcome: Outcome, most: float) -> Outcome:
    preprocessed, released = (context.home.table(t) for t in ("preprocessed", "randomised"))
    gains: dict[str, float] = {}
    for column in context.columns():
        if isinstance(column.mechanism, UnaryEncoding):
            continue
        channel = column.mechanism.channel(column.domain)
        both = _in_blocks(preprocessed.column(column.source), released.column(column.name))
        pairs = attacks.counted(both, channel)
        marginal = pairs.sum(axis=1) / pairs.sum()
        near = attacks.tolerance_of(column.domain)
        gains[column.name] = attacks.guess_of(pairs, channel, marginal, near).gain
    files = {**outcome.files, "quality/attacks.json": json.dumps(gains, indent=1).encode()}
    passed = max(gains.values(), default=0.0) <= most
    where = f"{context.federation.name}/{context.run}/quality/attacks.json"
    failure = ContractError(
        f"{context.party}: an attack on the release gains more than the policy's "
        "checks.max_attack_gain; nothing of this stage was published.",
        f"What each gains is in {where} in the home folder of {context.party}.",
    )
    return replace(
        outcome,
        documents=outcome.documents if passed else {},
        files=files,
        summary={
            "checks": brevity.verdicts({**outcome.documents["checked_release"], "attacks": passed})
        },
        failure=None if passed else failure,
    )


def _in_blocks(
    values: pa.ChunkedArray, released: pa.ChunkedArray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Some rows of integer columns at a time, of which a mapped file is let go."""
    for rows in slices(max(len(values), len(released))):
        size = rows.stop - rows.start
        parts = (values.slice(rows.start, size), released.slice(rows.start, size))
        yield whole_numbers(parts[0]), whole_numbers(parts[1])
        let_go()


def check_frame(context: Context) -> Outcome:
    """Check the training frame."""
    table = context.home.table("frame")
    facts = context.home.json("frame")
    label = context.federation.parties[context.party].label
    assert label is not None
    ranked = {name: domain.size for name, domain in domains_of(context).items()}
    rows = context.home.json("alignment")["train"]
    classes = len(facts["classes"])
    # Ranks are dense in each feature holder's whole table, of which these are some rows.
    suite = suites.training_frame(facts["names"], label, classes, rows, ranked, dense=False)
    return check(context, {"training_frame": (suite, table)}, marks="checked_frame")


def check_scores(context: Context) -> Outcome:
    """Check the scores of new rows before anybody uses them."""
    assert context.model is not None
    files = Registry(context.site.models, context.federation.name).files(context.model)
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


def _dense(context: Context) -> bool:
    """Whether ranks are those of present values alone."""
    return context.federation.training.trainer != "dpboost"


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


def check(
    context: Context,
    boundaries: Mapping[str, tuple[suites.Suite, pa.Table | Blocks]],
    marks: str = "",
) -> Outcome:
    """Run suites, keep their reports at home, and fail if one of them fails.

    Args:
        context: The party's.
        boundaries: Suite and table, or how to read it block by block, by boundary.
        marks: Name of a document that later stages look for, written if all pass.
    """
    files: dict[str, bytes] = {}
    failed: list[str] = []
    seconds = processor = 0.0
    summary: dict[str, bool] = {}
    folder = site_file(context.party).parent
    absent = _absent(context)
    for boundary, (suite, table) in boundaries.items():
        begin = time.process_time()
        report = run_suite(tightened(suite, folder, boundary, absent), table, context.home.scratch)
        processor += time.process_time() - begin
        files[f"quality/{boundary}.json"] = report.json()
        files[f"quality/{boundary}.html"] = report.html()
        seconds += report.seconds
        summary[boundary] = report.passed
        if not report.passed:
            failed.append(boundary)
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
        documents={marks: summary} if marks and not failed else {},
        files=files,
        summary={"checks": brevity.verdicts(summary)},
        discloses=DISCLOSES,
        quality_seconds=seconds,
        quality_processor_seconds=processor,
        failure=failure,
    )
