"""The gate of a new private model: it compares two values on the same rows in the same mode.

Intervals of a private model's metrics would be exact functions of the rows, so `interval_gate` is
for all other models. Both gates reject a model that is worse than the reference, the best so far.
"""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.columns import EVERYONE, columns_of, shared_columns
from opboost_ops.config.federation import Federation
from opboost_ops.learning import metrics
from opboost_ops.learning.registry.registry import federation_in, has_model, model_in
from opboost_ops.pipeline.stage import Context

#: Standard errors of a difference that a 95% interval detects in 80% of draws: 1.96 + 0.84.
DETECTED = 2.8


def comparable_reference(
    context: Context, facts: Mapping[str, Any], version: str | None
) -> str | None:
    """Return a version's model if it can predict this run's held-out rows in the scoring mode.

    Args:
        context: The label holder's context.
        facts: Facts about the training frame from `assemble`.
        version: The version; None before the first.

    Returns:
        The model's text; None if the version does not exist, is this run's, has other columns or
        maps, or is not in this run's plan, so that its routes were not requested.
    """
    if version is None or version == context.run:
        return None
    # This run requested the routes of this version's thresholds only.
    if context.federation.learning == "vertical" and version != context.reference:
        return None
    files = context.registry.files(version)
    return model_in(files) if same_columns(context.federation, facts, files) else None


def present_champion(context: Context) -> str | None:
    """Return the champion's version; None before the first, or if it is this run's.

    Args:
        context: The label holder's context.
    """
    champion = context.registry.champion()
    return None if champion == context.run else champion


def gate(
    context: Context,
    task: metrics.Task,
    new: Mapping[str, float],
    old: Mapping[str, float] | None,
    reference: str | None,
    error: float | None = None,
) -> dict[str, Any]:
    """Compare a model with the reference on the held-out rows, in the mode of scoring.

    The reference is evaluated on the same rows if possible; otherwise its recorded evaluation in
    the same mode is used. Without one, a person has to decide.

    Args:
        context: The label holder's context.
        task: The label's task.
        new: The new model's metrics.
        old: The reference's metrics on the same rows, if it can predict them.
        reference: The version to compare with, from `reference_of`; None before the first.
        error: Standard error of a difference from noise in the metrics; None without noise.

    Returns:
        ``promote``, ``why`` in public words, ``metric``, ``tolerance``, ``new``, ``detectable``,
        and the reference's ``version`` and ``value``, None before the first.
    """
    metric = metrics.main_metric(task, noisy=noisy_metrics_of(context.federation))
    mode = context.federation.scoring.mode
    tolerance = context.federation.training.tolerance
    result: dict[str, Any] = {"metric": metric, "tolerance": tolerance, "new": new.get(metric)}
    detectable = None if error is None else DETECTED * error
    result |= {"version": None, "value": None, "detectable": detectable}
    if metric not in new:
        return {**result, "promote": False, "why": undefined(metric)}
    if reference is None or reference == context.run:
        return {**result, "promote": True, "why": "the first model"}
    result["version"] = reference
    rows = "the same rows"
    if old is None:
        old = recorded_metrics(context.registry.files(reference)["evaluation.json"], mode)
        rows = "its own held-out rows, because columns or the reference have changed"
    if metric not in old:
        why = (
            f"version {reference} knows other columns and was never evaluated in mode {mode} by "
            f"{metric}: compare them, and promote one by hand"
        )
        return {**result, "promote": False, "why": why}
    value = old[metric]
    if metric == "mse":
        promote = new[metric] <= value + tolerance * _greatest_variance(context)
    else:
        promote = new[metric] >= value - tolerance
    relation = "not worse" if promote else "worse"
    noise = "" if detectable is None else " (with noise)"
    why = (
        f"{metric} {new[metric]:.4f}{noise} in mode {mode} is {relation} than {value:.4f} of "
        f"version {reference}, the best so far, on {rows}{within(tolerance, detectable)}"
    )
    return {**result, "value": value, "promote": promote, "why": why}


def undefined(metric: str) -> str:
    """Return the public reason why a model with an undefined main metric is not promoted.

    Args:
        metric: Name of the metric.
    """
    return f"{metric} is undefined: all held-out rows have one label"


def within(tolerance: float, detectable: float | None) -> str:
    """Return the tolerance and the detectable difference as the end of a reason.

    Args:
        tolerance: The declared tolerance.
        detectable: In the metric's unit; None if unknown.
    """
    allowed = f", tolerance {tolerance:g}" if tolerance else ""
    if detectable is None:
        return allowed
    return f"{allowed}; these rows detect a difference of {detectable:.4f}"


def noisy_metrics_of(federation: Federation) -> bool:
    """Return True if held-out metrics have noise.

    Args:
        federation: The federation of the run.
    """
    private = federation.training.private
    return private is not None and private.metrics_epsilon is not None


def _greatest_variance(context: Context) -> float:
    """Return a label's largest possible variance within its public bounds.

    The label's own variance would be an exact disclosure.
    """
    label = context.declared.label
    assert label is not None and label.bounds is not None
    return ((label.bounds[1] - label.bounds[0]) / 2) ** 2


def same_columns(
    federation: Federation, facts: Mapping[str, Any], files: Mapping[str, bytes]
) -> bool:
    """Return True if a version's model uses a frame's columns with the same maps.

    Args:
        federation: The frame's federation.
        facts: Facts about the frame from `assemble`.
        files: The version's files.
    """
    if not has_model(files):
        return False
    before = json.loads(files["columns.json"])
    if any(before[name] != facts[name] for name in ("names", "categories", "task", "classes")):
        return False
    return same_maps(federation_in(files), federation)


def recorded_metrics(evaluation: bytes, mode: str) -> dict[str, float]:
    """Return a version's recorded metrics in a scoring mode; empty without an evaluation in it.

    Args:
        evaluation: The version's ``evaluation.json``.
        mode: The mode.
    """
    return dict(json.loads(evaluation)["metrics"].get(f"federated_{mode}", {}))


def same_maps(before: Federation, now: Federation) -> bool:
    """Return True if columns have the same maps and rows are of the same people.

    Args:
        before: The federation that a version was trained with.
        now: The federation of the run.
    """
    return maps(before) == maps(now) and before.keeps_all == now.keeps_all


def maps(federation: Federation) -> list[tuple[str, str, bytes]]:
    """Return each protected or common column with the digest of its map to integers.

    Args:
        federation: The federation of the run.
    """
    if federation.learning == "horizontal":
        return [(EVERYONE, column.name, column.digest) for column in shared_columns(federation)]
    return [
        (party, column.name, column.map_digest)
        for party in federation.feature_holders
        for column in columns_of(federation, party)
    ]
