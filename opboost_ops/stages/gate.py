"""Whether a new model may become champion: compared with the present one, like with like."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from opboost_ops.boosting import metrics
from opboost_ops.boosting.trainer import predict
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.models.registry import Registry
from opboost_ops.stages.stage import Context


def gate(
    context: Context, facts: Mapping[str, Any], holdout: np.ndarray, truth: np.ndarray, new: float
) -> dict[str, Any]:
    """Compare a model with the champion on the held-out rows, in the mode of scoring.

    The champion is evaluated on the same rows if it knows the same columns by the same maps;
    otherwise its own evaluation stands for it.

    Args:
        context: The label holder's.
        facts: What `assemble` says of the frame.
        holdout: The held-out frame, shape (n, features).
        truth: Its labels, shape (n,).
        new: The new model's main metric.

    Returns:
        ``promote``, ``why`` in public words, ``metric``, ``tolerance``, and of the champion its
        ``version`` and ``value``, None before the first.
    """
    registry = Registry(context.site.models, context.federation.name)
    champion = registry.champion()
    metric = metrics.main_metric(facts["task"])
    tolerance = context.federation.training.tolerance
    result: dict[str, Any] = {"metric": metric, "tolerance": tolerance, "new": new}
    if champion is None or champion == context.run:
        return {**result, "version": None, "value": None, "promote": True, "why": "the first model"}
    files = registry.files(champion)
    if _same_columns(context.federation, facts, files):
        prediction = predict(files["model.txt"].decode(), holdout)
        value, rows = metrics.evaluate(facts["task"], truth, prediction)[metric], "the same rows"
    else:
        evaluation = json.loads(files["evaluation.json"])
        value = evaluation["metrics"]["federated_desensitised"][metric]
        rows = "its own held-out rows, because columns have changed"
    promote = new >= value - tolerance
    relation = "not worse" if promote else "worse"
    why = (
        f"{metric} {new:.4f} is {relation} than the champion's {value:.4f} on {rows}, "
        f"tolerance {tolerance:g}"
    )
    return {**result, "version": champion, "value": value, "promote": promote, "why": why}


def _same_columns(
    federation: Federation, facts: Mapping[str, Any], files: Mapping[str, bytes]
) -> bool:
    before = json.loads(files["columns.json"])
    if any(before[name] != facts[name] for name in ("names", "categories", "task", "classes")):
        return False
    old = parse_federation(json.loads(files["federation.json"]), "federation.json")
    return _maps(old) == _maps(federation)


def _maps(federation: Federation) -> list[tuple[str, str, bytes]]:
    return [
        (party, column.name, column.map_digest)
        for party in federation.feature_holders
        for column in columns_of(federation, party)
    ]
