"""Drift, reported at home: of the label holder's table, and of people whom a release pins later."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from opboost_ops.pipeline.inputs import own_copy
from opboost_ops.pipeline.inputs.raw_blocks import blocks
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.checks import report_files
from opboost_ops.quality import drift
from opboost_ops.quality.drift import Profile
from opboost_ops.quality.live import PROFILES, columns_of
from opboost_ops.tables.spill.tables import rows_of_block

#: Of new rows, the columns' counts in the bins of training.
COUNTS = "column_counts"

#: The profile of the people whom a feature holder's releases pinned first.
PINNED = f"{PROFILES}/pinned"

#: Fewer new people are not compared.
FEWEST = 100

#: What the party is told, and only by its own workers.
NOTICE = "drift"


def check_drift(context: Context) -> Outcome:
    """Compare the table with the one on which the champion was trained.

    A feature holder compares people who are about to be pinned with those whom its releases pinned
    first: of others no value is read. Drift never stops a run. Its report is kept at home, and
    nothing of it leaves.

    Raises:
        ContractError: The table cannot be read as declared.
    """
    federation = context.federation
    features = federation.parties[context.party].features
    if not features:
        return Outcome()
    if "desensitize" in context.stages:
        return _of_new_people(context)

    table = _table(context, list(features))
    lasting = {}
    if context.purpose == "train":
        # Kept beyond the run: it is what later tables are compared with.
        profile = drift.profile(table, features, federation.domain.to_domain())
        lasting[f"{PROFILES}/{context.run}"] = profile.model_dump(mode="json")
    name = f"{PROFILES}/{context.model}"
    if context.model is None or context.model == context.run or not context.lasting.has(name):
        return Outcome(lasting=lasting)
    reference = Profile.model_validate(context.lasting.json(name))
    return _compared(context, reference, table, lasting)


def _of_new_people(context: Context) -> Outcome:
    """Compare people who are about to be pinned with those who were pinned first."""
    rows = own_copy.unpinned_rows(context)
    features, domain = context.declared.features, context.federation.domain.to_domain()

    def table(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        return own_copy.unpinned_blocks(context, columns)

    is_first = not context.lasting.has(PINNED)
    everybody = context.purpose == "train" and rows == context.home.json("table")["rows"]
    if rows and (is_first or everybody):
        profile = drift.profile(table, features, domain)
        return Outcome(lasting={PINNED: profile.model_dump(mode="json")})
    if rows < FEWEST:
        return Outcome()
    return _compared(context, Profile.model_validate(context.lasting.json(PINNED)), table, {})


def _compared(
    context: Context,
    reference: Profile,
    table: pl.DataFrame | drift.Frames,
    lasting: Mapping[str, Any],
) -> Outcome:
    features = context.declared.features
    begin, processor = time.perf_counter(), time.process_time()
    bins = {name: reference.features[name] for name in features if name in reference.features}
    if not bins:
        return Outcome(lasting=lasting)
    now = drift.counted(table, features, bins)
    report = drift.compare(reference, now, features, context.policy.checks.max_drift)
    scored = context.purpose == "score" and "desensitize" not in context.stages
    return Outcome(
        documents={COUNTS: columns_of(now)} if scored else {},
        lasting=lasting,
        files=report_files(drift.SUITE, report),
        notices=(NOTICE,) if report.warnings else (),
        spent={
            "quality_seconds": time.perf_counter() - begin,
            "quality_processor_seconds": time.process_time() - processor,
        },
    )


def _table(context: Context, features: list[str]) -> pl.DataFrame | drift.Frames:
    """The table itself if it is no more than a block, else how to read it as often as need be."""
    if context.home.json("table")["rows"] <= rows_of_block(len(features)):
        return pl.concat(blocks(context, features))
    return lambda columns: blocks(context, columns)
