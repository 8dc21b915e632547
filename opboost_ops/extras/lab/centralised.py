"""Training on all parties' raw columns, as a reference for generated or public datasets.

This module joins raw columns after a run, which no stage does. It is for tables without private
data only: `demo`, `run --dataset` and benchmarks call it, never a production DAG.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_party, load_site, parse_federation
from opboost_ops.exchange.files import integers
from opboost_ops.exchange.manifest import reference
from opboost_ops.exchange.store.store import open_store
from opboost_ops.learning import metrics as scores
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.trainer import Frame, format_of, parameters_of, predict
from opboost_ops.learning.registry.importance import raw_columns
from opboost_ops.pipeline.evaluation.tuning_search import with_tuned
from opboost_ops.pipeline.inputs.model_columns import encode_label, frame_of, model_columns
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.runner.facts import read_artifact
from opboost_ops.pipeline.stage import Home, PartyContext


def metrics(sites: Mapping[str, Path], federation: str, label_holder: str, run: str) -> Any:
    """Compare the accuracy of a federation with centralised training and the label holder alone.

    Args:
        sites: Each party's ``site.yaml``.
        federation: Name of the federation.
        label_holder: Name of its label holder.
        run: A finished run.

    Returns:
        Metrics (accuracy and auc, or mse and r2) of ``centralised``, ``label_holder_alone``,
        ``federated`` (on exact values) and ``federated_MODE`` for each evaluated mode.
    """
    own = load_site(sites[label_holder])
    home = Home(own.home / federation / run)
    plan = read_artifact(open_store(own.store), reference(federation, run, "plan", label_holder))
    declared = parse_federation(plan.document["federation"], "plan")
    facts, train = home.json("frame"), home.json("alignment")["train"]
    tables = {party: _table(declared, party, run, path) for party, path in sites.items()}
    label, raw, unprotected = _joined(declared, tables, home, facts)
    label_spec = declared.parties[label_holder].label
    assert label_spec is not None
    labels, classes = encode_label(label, label_spec, train)
    parameters = with_tuned(home, parameters_of(declared.training, facts["task"], classes))
    model = home.read(format_of(parameters.trainer).file).decode()
    if parameters.trainer == "dpboost":
        # Compare with a model without privacy.
        parameters = replace(parameters, trainer="lightgbm", private=None)
    names = tuple(facts["names"])
    weight = frame_of(home.table("frame"), facts).weight
    matrix = np.asfortranarray(raw[:train])
    frame = Frame(names, matrix, tuple(facts["categories"]), (), weight=weight)
    centralised = trainer.train(frame, labels[:train], parameters)
    scored = {
        "centralised": predict(centralised, raw[train:]),
        "federated": predict(model, unprotected[train:]),
    }
    evaluated = {
        name: scores.evaluate(parameters.task, labels[train:], prediction)
        for name, prediction in scored.items()
    }
    return evaluated | home.json("evaluation")["metrics"]


def _table(federation: Federation, party: str, run: str, path: Path) -> pl.DataFrame:
    """Return a party's training table as the run read it, with declared names."""
    site, policy = load_party(path)
    home = Home(site.home / federation.name / run)
    return whole_table(PartyContext(federation, run, party, site, policy, home))


def _joined(
    federation: Federation,
    tables: Mapping[str, pl.DataFrame],
    home: Home,
    facts: Mapping[str, Any],
) -> tuple[pl.Series, np.ndarray, np.ndarray]:
    """Return the label, all raw columns, and all columns encoded without noise."""
    owner, identity = federation.label_holder, federation.id.column
    order = tables[owner][integers(home.table("alignment"), "position")]
    rows = {
        party: order.select(identity).join(table, on=identity, how="left", maintain_order="left")
        for party, table in tables.items()
    }
    label = federation.parties[owner].label
    assert label is not None
    columns = raw_columns(federation, facts)
    values = {c.source: rows[c.party].get_column(c.feature) for c in columns}
    raw, clear = (
        np.column_stack([*model_columns(columns, values, encoded=encoded).values()])
        for encoded in (False, True)
    )
    return order.get_column(label.column), raw, clear
