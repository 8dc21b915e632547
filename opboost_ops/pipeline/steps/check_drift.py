"""Step: table or newly pinned people -> a drift report that stays at home."""

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

#: Counts of the columns of new rows in the bins of training.
COUNTS = "column_counts"

#: Profile of the people whom a feature holder's releases pinned first.
PINNED = f"{PROFILES}/pinned"

#: Minimum number of new people for a comparison.
FEWEST = 100

#: Notice to the party's own people, sent only by its own workers.
NOTICE = "drift"


def check_drift(context: Context) -> Outcome:
    """Compare the table with the champion's training table.

    A feature holder compares people who are about to be pinned with those whom its releases pinned
    first; it reads nobody else's values. Drift never stops a run. The report stays at home.

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
        # Stored beyond the run, for comparison with later tables.
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
    """Return the table if it fits into one block, otherwise a function that reads its blocks."""
    if context.home.json("table")["rows"] <= rows_of_block(len(features)):
        return pl.concat(blocks(context, features))
    return lambda columns: blocks(context, columns)
