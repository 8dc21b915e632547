"""Step: checked scores -> a new file in the label holder's folder of scores."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.files import narrow_integers
from opboost_ops.learning.distribution import new_distribution
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.registry.registry import DISTRIBUTIONS, GROUP_ROWS, store_scores
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.evaluation.scores import CLASS, SCORE, deliver
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.common_rows import CommonRows
from opboost_ops.pipeline.inputs.raw_blocks import blocks
from opboost_ops.pipeline.inputs.raw_table import declared_columns, positive_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.check_drift import COUNTS
from opboost_ops.pipeline.steps.open_rows import members_table, opened_table
from opboost_ops.quality.live import Counts, counts_of
from opboost_ops.tables.copies import rows_fingerprint
from opboost_ops.tables.spill.arrays import release_memory, slices

VERSION = "model_version"

#: Column names that no artifact uses.
_PLACE, _THERE = " place in the common order", " is there"


def write_scores(context: Context) -> Outcome:
    """Write the scores; the same rows, model and mode again write nothing new.

    Raises:
        ContractError: The scores were not checked, other scores of these inputs exist, the table
            was rewritten, or the sink in site.yaml rejects them.
        ConnectionError: The sink cannot be reached.
    """
    context.require_passed("checked_scores")
    raw_table.require_unchanged(context)
    model = context.model
    assert model is not None
    scores = context.home.table("scores")
    mode = context.federation.scoring.mode
    facts = {"federation": context.federation.name, "version": model, "mode": mode}
    files = context.registry.files(model)
    columns = json.loads(files["columns.json"])
    positive = positive_of(columns["task"], columns["classes"])
    if positive is not None:
        facts["positive"] = str(positive)
    name = f"{mode}-{_inputs(context)}{_layout(context, scores)}"
    path, new = store_scores(
        context.site.scores / context.federation.name,
        model,
        name,
        lambda: _groups(scores, model, {"opboost": json.dumps(facts)}),
    )
    # Deliver in every attempt: a repeated delivery replaces the same rows.
    if (sink := context.site.tables[context.federation.name].scores_to) is not None:
        groups = partial(_groups, scores, model)
        deliver(sink, groups, VERSION, model, name, context.home.scratch)
    classes = _class_counts(scores) if columns["classes"] else None
    numbers = _numbers(context, scores)
    distribution = new_distribution(columns["task"], numbers, classes)
    live = {"live": _live(context, columns["task"], numbers).model_dump(mode="json")}
    return Outcome(
        documents={"written": {"path": str(path)}},
        # Stored beyond the run, at the party only, to show how scores change over time.
        lasting={f"{DISTRIBUTIONS}/{model}/{context.run}": {"mode": mode, **distribution, **live}},
        summary={"rows": scores.num_rows, "file": path.name, "new": new},
    )


def _groups(
    scores: pa.Table, version: str, metadata: Mapping[str, str] | None = None
) -> Iterator[pa.Table]:
    """Yield the scores with the model's version, one row group at a time."""
    names = pa.array([version], pa.string())
    # Without rows, yield one empty group for the columns.
    for rows in list(slices(scores.num_rows, GROUP_ROWS)) or [slice(0, 0)]:
        part = scores.slice(rows.start, rows.stop - rows.start).combine_chunks()
        codes = pa.array(np.zeros(part.num_rows, dtype=np.int32))
        part = part.append_column(VERSION, pa.DictionaryArray.from_arrays(codes, names))
        yield part.replace_schema_metadata(dict(metadata) if metadata else None)
        del part


def _numbers(context: Context, scores: pa.Table) -> np.ndarray:
    """Return the scores alone, float64, shape (n,), in memory or on disk."""
    chunks = (chunk.to_numpy() for chunk in scores.column(SCORE).chunks)
    return context.home.scratch.filled(scores.num_rows, np.float64, chunks)


def _live(context: Context, task: Task, scores: np.ndarray) -> Counts:
    """Return the run's scores and the table's columns, counted in the bins of training."""
    mode = context.federation.scoring.mode
    columns = context.home.json(COUNTS) if context.home.has(COUNTS) else {}
    home = context.lasting.folder
    return counts_of(home, context.scored_version, mode, task, scores, columns=columns)


def _class_counts(scores: pa.Table) -> Counter[str]:
    """Return the number of rows of each class."""
    classes: Counter[str] = Counter()
    for chunk in scores.column(CLASS).chunks:
        for each in chunk.cast(pa.string()).value_counts().to_pylist():
            classes[each["values"]] += each["counts"]
        release_memory()
    return classes


def _layout(context: Context, scores: pa.Table) -> str:
    """Return a digest of the declared score columns, which may change for the same rows."""
    scoring = context.federation.scoring.model_dump(mode="json")
    content = [scores.column_names, scoring["cost_ratio"], scoring["reasons"]]
    return f"-{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]}"


def _inputs(context: Context) -> str:
    """Return the name of all inputs of the scores except model and mode.

    For the party's own rows it is a keyed fingerprint, because receivers of the scores see it. It
    does not depend on the file format of the table, or on people in it who are not scored.
    """
    mode = context.federation.scoring.mode
    key = noise.keyed_by(context.site.read_secret(), ":scores")
    names = declared_columns(context)
    fingerprints = {"rows": rows_fingerprint(_scored_rows(context), names, key)}
    modes = ("desensitised", "routed")
    for party in context.federation.feature_holders if mode in modes else ():
        # Not the artifact's digest, which differs in every run and covers everyone.
        table = context.home.table(opened_table(party))
        if context.federation.keeps_all:
            # Routed scores may use no column of a party, but their coverage depends on its members.
            there = context.home.table(members_table(party)).column("there")
            table = pa.table({_THERE: there, **dict(zip(table.column_names, table, strict=True))})
        names = [_PLACE, *table.column_names]
        fingerprints[party] = rows_fingerprint(_placed(table), names, key)
    return hashlib.sha256(json.dumps(fingerprints, sort_keys=True).encode()).hexdigest()[:16]


def _placed(table: pa.Table) -> Iterator[pl.DataFrame]:
    """Yield rows with their places, in blocks."""
    for rows in slices(table.num_rows):
        some = pl.DataFrame(table.slice(rows.start, rows.stop - rows.start))
        yield some.with_row_index(_PLACE, rows.start)


def _scored_rows(context: Context) -> Iterator[pl.DataFrame]:
    names = declared_columns(context)
    if context.federation.scoring.mode == "local":
        return blocks(context, names)
    positions = narrow_integers(context.home.table("alignment"), "position")
    rows = CommonRows(context, positions)
    return (frame for _, frame in rows.blocks(names))
