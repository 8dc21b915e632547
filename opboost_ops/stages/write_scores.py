"""Arrow: checked scores -> one more file in the label holder's folder of scores."""

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.encoding import integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.mechanisms import noise
from opboost_ops.models.scores import keep
from opboost_ops.stages import raw_table
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.raw_names import declared_columns
from opboost_ops.stages.stage import Context, Outcome
from opboost_ops.stages.table_content import rows_fingerprint

VERSION = "model_version"

#: No column of an artifact has this name.
_PLACE = " place in the common order"


def write_scores(context: Context) -> Outcome:
    """Add the scores; the same rows scored again by the same model in the same mode add nothing.

    Raises:
        ContractError: The scores were not checked, other scores of these inputs exist, or the table
            was rewritten.
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
    path, new = keep(
        context.site.scores / context.federation.name,
        context.model,
        f"{mode}-{_inputs(context)}",
        table.replace_schema_metadata({"opboost": json.dumps(facts)}),
    )
    return Outcome(
        documents={"written": {"path": str(path)}},
        summary={"rows": table.num_rows, "file": path.name, "new": new},
    )


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
        answer = context.receive(kind, party).table
        frame = pl.from_arrow(answer)
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
