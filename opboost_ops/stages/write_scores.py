"""Arrow: checked scores -> one more file in the label holder's folder of scores."""

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.boosting.distribution import new_distribution
from opboost_ops.exchange.encoding import integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.mechanisms import noise
from opboost_ops.models.registry import Registry
from opboost_ops.models.scores import DISTRIBUTIONS, keep
from opboost_ops.stages import raw_table
from opboost_ops.stages.chosen import chosen
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.positive_class import positive_of
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.raw_names import declared_columns
from opboost_ops.stages.score_columns import CLASS, SCORE
from opboost_ops.stages.sinks import deliver
from opboost_ops.stages.stage import Context, Outcome
from opboost_ops.stages.table_content import rows_fingerprint

VERSION = "model_version"

#: The ID, the score and the class.
_FIRST_COLUMNS = 3

#: No column of an artifact has this name.
_PLACE = " place in the common order"


def write_scores(context: Context) -> Outcome:
    """Add the scores; the same rows scored again by the same model in the same mode add nothing.

    Raises:
        ContractError: The scores were not checked, other scores of these inputs exist, the table
            was rewritten, or what site.yaml names does not take them.
        ConnectionError: That cannot be reached.
    """
    context.home.json("checked_scores")
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    assert context.model is not None
    scores = context.home.table("scores")
    version = pa.array([context.model], pa.string()).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(
        pa.array([0] * scores.num_rows, pa.int32()), version.dictionary
    )
    table = scores.append_column(VERSION, column)
    mode = context.federation.scoring.mode
    facts = {"federation": context.federation.name, "version": context.model, "mode": mode}
    files = Registry(context.site.models, context.federation.name).files(context.model)
    columns = json.loads(files["columns.json"])
    positive = positive_of(columns["task"], columns["classes"])
    if positive is not None:
        facts["positive"] = str(positive)
    name = f"{mode}-{_inputs(context)}{_layout(context, scores)}"
    path, new = keep(
        context.site.scores / context.federation.name,
        context.model,
        name,
        table.replace_schema_metadata({"opboost": json.dumps(facts)}),
    )
    # Again at every try: what was delivered before is replaced by the same.
    if (sink := context.site.tables[context.federation.name].scores_to) is not None:
        deliver(sink, table, VERSION, context.model, name)
    said = scores.column(CLASS).cast(pa.string()).to_numpy() if columns["classes"] else None
    seen = new_distribution(columns["task"], scores.column(SCORE).to_numpy(), said)
    return Outcome(
        documents={"written": {"path": str(path)}},
        # Kept beyond the run, for whoever asks how scores have moved; it is the party's alone.
        lasting={f"{DISTRIBUTIONS}/{context.model}/{context.run}": {"mode": mode, **seen}},
        summary={"rows": table.num_rows, "file": path.name, "new": new},
    )


def _layout(context: Context, scores: pa.Table) -> str:
    """What is declared of the scores' columns, which may change while model and rows do not.

    Nothing for the columns that 0.1.0 had: the same rows scored again add nothing to its files.
    """
    if scores.num_columns == _FIRST_COLUMNS and context.federation.scoring.threshold is None:
        return ""
    scoring = context.federation.scoring.model_dump(mode="json")
    made = [scores.column_names, scoring["threshold"], scoring["reasons"]]
    return f"-{hashlib.sha256(json.dumps(made).encode()).hexdigest()[:8]}"


def _inputs(context: Context) -> str:
    """Name of everything that the scores follow from, besides model and mode.

    Everybody sees it: of the party's own rows it is a keyed fingerprint, however the table of new
    rows is written and whoever else is in it.
    """
    kinds: dict[str, Kind] = {"desensitised": "values", "routed": "routes"}
    kind = kinds.get(context.federation.scoring.mode)
    key = noise.receiver_secret(context.site.noise_secret(), ":scores")
    names = declared_columns(context)
    found = {"rows": rows_fingerprint(_scored_rows(context), names, key)}
    for party in context.federation.feature_holders if kind else ():
        assert kind is not None
        # Not the artifact's digest, which is another one in every run: it covers a salt.
        # Nor, with decoys, who else was released, in which order.
        answer = context.receive(kind, party)
        table = chosen(context, answer) if context.federation.has_decoys else answer.table
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        placed = frame.with_row_index(_PLACE)
        found[party] = rows_fingerprint([placed], placed.columns, key)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def _scored_rows(context: Context) -> Iterator[pl.DataFrame]:
    local = context.federation.scoring.mode == "local"
    positions = None if local else integers(context.home.table("alignment"), "position")
    begin = 0
    for block in blocks(context):
        end = begin + block.height
        if positions is None:
            yield block
        else:
            here = positions[(positions >= begin) & (positions < end)] - begin
            yield block[np.sort(here)]
        begin = end
