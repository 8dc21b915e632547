"""Arrow: new rows, preprocessed the same way -> predictions."""

import json

import numpy as np
import pyarrow as pa

from opboost_ops.boosting.trainer import model_of, predict
from opboost_ops.exchange.encoding import integers
from opboost_ops.models.registry import Registry, model_in
from opboost_ops.stages import raw_table
from opboost_ops.stages.assemble import own_columns
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.encode_rows import raw_matrix
from opboost_ops.stages.held_out import SCORING
from opboost_ops.stages.others import others
from opboost_ops.stages.score_columns import reason_columns, score_columns
from opboost_ops.stages.stage import Context, Outcome


def score(context: Context) -> Outcome:
    """Score every row of the label holder's table of new rows that the mode can score.

    In mode ``local`` these are all rows; otherwise those that all parties have.

    Raises:
        ContractError: The model is damaged, or the table is not the one that was checked.
        ArtifactError: What another party released is not what it must be.
    """
    assert context.model is not None
    files = Registry(context.site.models, context.federation.name).files(context.model)
    facts, text = json.loads(files["columns.json"]), model_in(files)
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    mode = context.federation.scoring.mode
    table = raw_table.read(context)
    if mode == "local":
        positions = np.arange(table.height)
    else:
        positions = integers(context.home.table("alignment"), "position")
    rows = table[positions]
    if context.federation.learning == "horizontal":
        columns = raw_matrix(context, rows)
    else:
        columns = own_columns(context, rows, facts["categories"])
        columns |= others(context, mode, positions, model_of(text).numeric_splits())
    matrix = np.empty((len(positions), len(facts["names"])), dtype=np.float64, order="F")
    for i, name in enumerate(facts["names"]):
        matrix[:, i] = columns.pop(name)
    prediction = predict(text, matrix)
    identity = context.federation.id.column
    fitted = json.loads(files.get(f"{SCORING}.json", b"{}")).get(mode, {})
    scoring = context.federation.scoring
    scores = {identity: rows.get_column(identity).to_arrow()}
    scores |= score_columns(facts, fitted, scoring, prediction)
    if scoring.reasons is not None:
        scores |= reason_columns(context.federation, facts["names"], text, matrix, scoring.reasons)
    return Outcome(
        tables={"scores": pa.table(scores)},
        summary={"rows": len(positions), "mode": mode, "version": context.model},
        # With decoys that is told at home alone.
        discloses="" if context.federation.has_decoys else "how many new rows were scored",
    )
