"""Training on everybody's raw columns, to compare a federation of generated or public tables with.

No stage ever sees joined raw columns. This module does, after a run, because nobody's data are in
the tables; `demo`, `run --dataset` and benchmarks call it, never a production DAG.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.boosting import metrics as scores
from opboost_ops.boosting import trainer
from opboost_ops.boosting.trainer import Frame, format_of, predict
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_policy, load_site, parse_federation
from opboost_ops.exchange.encoding import integers
from opboost_ops.exchange.manifest import reference
from opboost_ops.exchange.store import open_store
from opboost_ops.run.artifact_sizes import read_artifact
from opboost_ops.stages import raw_table
from opboost_ops.stages.assemble import category_codes, encode_label, frame_of
from opboost_ops.stages.raw_blocks import whole_table
from opboost_ops.stages.stage import Context, Home
from opboost_ops.stages.train import parameters_of
from opboost_ops.stages.tuning_search import with_tuned


def metrics(sites: Mapping[str, Path], federation: str, label_holder: str, run: str) -> Any:
    """Accuracy of the federation beside training on everybody's raw columns, and alone.

    Args:
        sites: Every party's ``site.yaml``.
        federation: Name of the federation.
        label_holder: Its label holder.
        run: A finished run.

    Returns:
        ``centralised``, ``label_holder_alone``, ``federated`` (mode clear)
        and ``federated_MODE`` for each mode that the run evaluated,
        each with accuracy and auc, or mse and r2.
    """
    own = load_site(sites[label_holder])
    home = Home(own.home / federation / run)
    plan = read_artifact(open_store(own.store), reference(federation, run, "plan", label_holder))
    declared = parse_federation(plan.document["federation"], "plan")
    facts, train = home.json("frame"), home.json("alignment")["train"]
    tables = {party: _table(declared, party, run, path) for party, path in sites.items()}
    raw, clear = _joined(declared, tables, home, facts)
    label_spec = declared.parties[label_holder].label
    assert label_spec is not None
    labels, classes = encode_label(raw.pop("label"), label_spec, train)
    parameters = with_tuned(home, parameters_of(declared.training, facts["task"], classes))
    model = home.read(format_of(parameters.trainer).file).decode()
    if parameters.trainer == "dpboost":
        # What privacy of the model costs is part of the comparison.
        parameters = replace(parameters, trainer="lightgbm", private=None)
    names = tuple(facts["names"])
    everything = np.column_stack([raw[name] for name in names])
    weight = frame_of(home.table("frame"), facts).weight
    matrix = np.asfortranarray(everything[:train])
    frame = Frame(names, matrix, tuple(facts["categories"]), (), weight=weight)
    centralised = trainer.train(frame, labels[:train], parameters)
    protected = np.column_stack([clear[name] for name in names])
    scored = {
        "centralised": predict(centralised, everything[train:]),
        "federated": predict(model, protected[train:]),
    }
    judged = {
        name: scores.evaluate(parameters.task, labels[train:], given)
        for name, given in scored.items()
    }
    return judged | home.json("evaluation")["metrics"]


def _table(federation: Federation, party: str, run: str, path: Path) -> pl.DataFrame:
    """A party's training table as the run read it, by declared names."""
    site, policy = load_site(path), load_policy(path.parent / POLICY)
    home = Home(site.home / federation.name / run)
    store = open_store(site.store)
    return whole_table(Context(federation, run, party, site, policy, home, store, "", 0.0))


def _joined(
    federation: Federation,
    tables: Mapping[str, pl.DataFrame],
    home: Home,
    facts: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    identity = federation.id.column
    domain = federation.domain.to_domain()
    own = federation.label_holder
    own_rows = tables[own][integers(home.table("alignment"), "position")]
    order = own_rows.select(identity)
    label = federation.parties[own].label
    assert label is not None
    raw: dict[str, Any] = {"label": own_rows.get_column(label.column)}
    clear: dict[str, np.ndarray] = {}
    for party, spec in federation.parties.items():
        rows = own_rows
        if party != own:
            rows = order.join(tables[party], on=identity, how="left", maintain_order="left")
        for name, feature in spec.features.items():
            full = f"{party}.{name}"
            if full in facts["categories"]:
                text = rows.get_column(name).cast(pl.String)
                raw[full] = category_codes(text, facts["categories"][full])
            else:
                raw[full] = raw_table.numbers(rows.get_column(name), feature)
            if party == own:
                clear[full] = raw[full]
            elif feature.type != "nominal":
                clear[full] = feature.domain_map(domain).encode(raw[full]).astype(float)
        for column in columns_of(federation, party) if party != own else ():
            full, values = f"{party}.{column.name}", rows.get_column(column.feature)
            if column.bit is not None:
                codes = raw_table.numbers(values, spec.features[column.feature])
                raw[full] = clear[full] = (codes == column.bit).astype(float)
            elif column.source != column.feature:
                raw[full] = clear[full] = raw_table.missing(values).astype(float)
    return raw, clear
