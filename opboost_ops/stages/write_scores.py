"""Arrow: checked scores -> one more file in the label holder's folder of scores."""

import hashlib
import json

import pyarrow as pa

from opboost_ops.exchange.manifest import Kind
from opboost_ops.models.scores import keep
from opboost_ops.stages.stage import Context, Outcome

VERSION = "model_version"


def write_scores(context: Context) -> Outcome:
    """Add the scores; the same rows scored again by the same model in the same mode add nothing.

    Raises:
        ContractError: The scores were not checked, or other scores of these inputs exist.
    """
    context.home.json("checked_scores")
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
    """Name of everything that the scores follow from, besides model and mode."""
    kinds: dict[str, Kind] = {"desensitised": "values", "routed": "routes"}
    kind = kinds.get(context.federation.scoring.mode)
    found = {"table": context.home.json("table")["sha256"]}
    for party in context.federation.feature_holders if kind else ():
        assert kind is not None
        files = context.receive(kind, party).manifest.files
        found[party] = " ".join(files[name].sha256 for name in sorted(files))
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]
