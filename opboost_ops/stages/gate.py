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
from opboost_ops.config.shared_columns import EVERYONE, shared_columns
from opboost_ops.models.registry import Registry, model_in
from opboost_ops.stages.stage import Context


def comparable_champion(context: Context, facts: Mapping[str, Any]) -> str | None:
    """The champion's model, if it can predict this run's held-out rows in the mode of scoring.

    Args:
        context: The label holder's.
        facts: What `assemble` says of the frame.

    Returns:
        Its text; None if there is no champion, if it is this run's model, if it knows other
        columns or maps, or if it came after this run's plan, so that the comparisons that it
        needs in mode ``routed`` were not asked for.
    """
    registry = Registry(context.site.models, context.federation.name)
    champion = registry.champion()
    if champion is None or champion == context.run:
        return None
    if context.federation.scoring.mode == "routed" and champion != context.model:
        return None
    files = registry.files(champion)
    same = same_columns(context.federation, facts, files)
    return model_in(files) if same else None


def gate(
    context: Context,
    facts: Mapping[str, Any],
    comparable: str | None,
    holdout: np.ndarray,
    truth: np.ndarray,
    new: Mapping[str, float],
) -> dict[str, Any]:
    """Compare a model with the champion on the held-out rows, in the mode of scoring.

    The champion is evaluated on the same rows if it can be; otherwise its own evaluation in the
    same mode stands for it. If it has none, a person has to decide.

    Args:
        context: The label holder's.
        facts: What `assemble` says of the frame.
        comparable: The champion's model as `comparable_champion` gives it.
        holdout: The held-out frame in the mode of scoring, shape (n, features).
        truth: Its labels, shape (n,).
        new: The new model's metrics.

    Returns:
        ``promote``, ``why`` in public words, ``metric``, ``tolerance``, ``new``, and of the
        champion its ``version`` and ``value``, None before the first.
    """
    registry = Registry(context.site.models, context.federation.name)
    champion = registry.champion()
    metric = metrics.main_metric(facts["task"])
    mode = context.federation.scoring.mode
    tolerance = context.federation.training.tolerance
    result: dict[str, Any] = {"metric": metric, "tolerance": tolerance, "new": new[metric]}
    result |= {"version": None, "value": None}
    if champion is None or champion == context.run:
        return {**result, "promote": True, "why": "the first model"}
    result["version"] = champion
    if comparable is not None:
        prediction = predict(comparable, holdout)
        value, rows = metrics.evaluate(facts["task"], truth, prediction)[metric], "the same rows"
    else:
        evaluation = json.loads(registry.files(champion)["evaluation.json"])["metrics"]
        if f"federated_{mode}" not in evaluation:
            why = (
                f"the champion knows other columns and was never evaluated in mode {mode}: "
                "compare them, and promote one by hand"
            )
            return {**result, "promote": False, "why": why}
        value = evaluation[f"federated_{mode}"][metric]
        rows = "its own held-out rows, because columns or the champion have changed"
    promote = new[metric] >= value - tolerance
    relation = "not worse" if promote else "worse"
    why = (
        f"{metric} {new[metric]:.4f} in mode {mode} is {relation} than the champion's {value:.4f} "
        f"on {rows}, tolerance {tolerance:g}"
    )
    return {**result, "value": value, "promote": promote, "why": why}


def same_columns(
    federation: Federation, facts: Mapping[str, Any], files: Mapping[str, bytes]
) -> bool:
    """Whether a version's model knows a frame's columns by the same maps.

    Args:
        federation: Of the frame.
        facts: What `assemble` says of the frame.
        files: The version's.
    """
    before = json.loads(files["columns.json"])
    if any(before[name] != facts[name] for name in ("names", "categories", "task", "classes")):
        return False
    old = parse_federation(json.loads(files["federation.json"]), "federation.json")
    return maps(old) == maps(federation)


def maps(federation: Federation) -> list[tuple[str, str, bytes]]:
    """Every protected or common column with the digest of the map onto its domain.

    Args:
        federation: As it was run.
    """
    if federation.learning == "horizontal":
        return [(EVERYONE, column.name, column.digest) for column in shared_columns(federation)]
    return [
        (party, column.name, column.map_digest)
        for party in federation.feature_holders
        for column in columns_of(federation, party)
    ]
