"""The gate of a new private model: two values on the same rows, in the same mode.

Of its metrics an interval would be exact functions of the rows; `interval_gate` is for all others.
Both reject a model that is worse than the reference, the best so far.
"""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.columns import EVERYONE, columns_of, shared_columns
from opboost_ops.config.federation import Federation
from opboost_ops.learning import metrics
from opboost_ops.learning.registry.registry import federation_in, has_model, model_in
from opboost_ops.pipeline.stage import Context

#: Standard errors of a difference that a 95 % interval shows in 80 % of draws: 1.96 + 0.84.
DETECTED = 2.8


def comparable_reference(
    context: Context, facts: Mapping[str, Any], version: str | None
) -> str | None:
    """A version's model, if it can predict this run's held-out rows in the mode of scoring.

    Args:
        context: The label holder's.
        facts: What `assemble` says of the frame.
        version: Which one; None before the first.

    Returns:
        Its text; None if there is no such version, if it is this run's, if it knows other columns
        or maps, or if it was not in this run's plan, so that the comparisons that it needs were
        not asked for.
    """
    if version is None or version == context.run:
        return None
    # What lies on which side of its thresholds was asked for in this run, of this version alone.
    if context.federation.learning == "vertical" and version != context.reference:
        return None
    files = context.registry.files(version)
    return model_in(files) if same_columns(context.federation, facts, files) else None


def present_champion(context: Context) -> str | None:
    """The champion's version; None before the first, or if it is this run's.

    Args:
        context: The label holder's.
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

    The reference is evaluated on the same rows if it can be; otherwise its own evaluation in the
    same mode stands for it. If it has none, a person has to decide.

    Args:
        context: The label holder's.
        task: What is learnt.
        new: The new model's metrics.
        old: The reference's on the same rows, if it can predict them.
        reference: The version to compare to, by `reference_of`; None before the first.
        error: Standard error of a difference by the noise in metrics; None where they have none.

    Returns:
        ``promote``, ``why`` in public words, ``metric``, ``tolerance``, ``new``, ``detectable``,
        and of the reference its ``version`` and ``value``, None before the first.
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
    """Why a model is not promoted whose main metric is undefined, in public words.

    Args:
        metric: Its name.
    """
    return f"{metric} is undefined: all held-out rows have one label"


def within(tolerance: float, detectable: float | None) -> str:
    """The tolerance and the detectable difference, as the end of a reason.

    Args:
        tolerance: As declared.
        detectable: In the metric's unit; None where it is not known.
    """
    allowed = f", tolerance {tolerance:g}" if tolerance else ""
    if detectable is None:
        return allowed
    return f"{allowed}; these rows detect a difference of {detectable:.4f}"


def noisy_metrics_of(federation: Federation) -> bool:
    """True if held-out metrics have noise.

    Args:
        federation: As it was run.
    """
    private = federation.training.private
    return private is not None and private.metrics_epsilon is not None


def _greatest_variance(context: Context) -> float:
    """Of a label within its public bounds; the label's own variance would be exact."""
    label = context.declared.label
    assert label is not None and label.bounds is not None
    return ((label.bounds[1] - label.bounds[0]) / 2) ** 2


def same_columns(
    federation: Federation, facts: Mapping[str, Any], files: Mapping[str, bytes]
) -> bool:
    """True if a version's model knows a frame's columns by the same maps.

    Args:
        federation: Of the frame.
        facts: What `assemble` says of the frame.
        files: The version's.
    """
    if not has_model(files):
        return False
    before = json.loads(files["columns.json"])
    if any(before[name] != facts[name] for name in ("names", "categories", "task", "classes")):
        return False
    return same_maps(federation_in(files), federation)


def recorded_metrics(evaluation: bytes, mode: str) -> dict[str, float]:
    """A version's own metrics in a mode of scoring; none where it was not evaluated in it.

    Args:
        evaluation: Its ``evaluation.json``.
        mode: The mode.
    """
    return dict(json.loads(evaluation)["metrics"].get(f"federated_{mode}", {}))


def same_maps(before: Federation, now: Federation) -> bool:
    """True if columns are mapped alike, and the rows are of the same people.

    Args:
        before: As a version was trained.
        now: As it is run.
    """
    return maps(before) == maps(now) and before.keeps_all == now.keeps_all


def maps(federation: Federation) -> list[tuple[str, str, bytes]]:
    """Every protected or common column with the digest of all that makes its cells integers.

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
