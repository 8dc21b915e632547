"""The gate of a new model: promoted, or kept, with a reason in words.

`interval_gate` compares with the uncertainty of the difference. Intervals of a private model's
metrics would be exact functions of the rows, so `private_gate` compares two values. Both reject a
model that is worse than its `reference`.
"""

from collections.abc import Mapping
from typing import Any

from opboost_ops.learning import metrics
from opboost_ops.learning.intervals import METHOD, Comparison
from opboost_ops.learning.metrics import Interval
from opboost_ops.learning.registry.registry import federation_in
from opboost_ops.pipeline.evaluation.reference import (
    approved,
    noisy_metrics_of,
    present_champion,
    recorded_metrics,
    reference_of,
    version_files,
)
from opboost_ops.pipeline.stage import Context

#: Standard errors of a difference that a 95% interval detects in 80% of draws: 1.96 + 0.84.
_DETECTED = 2.8

#: Standard errors from the middle of a 95% interval to its ends.
_QUANTILE = 1.96

#: Names of models in a `Comparison`, besides their names in the metrics.
ALONE, REFERENCE = "label_holder_alone", "reference"


def interval_gate(
    context: Context, task: metrics.Task, comparison: Comparison, reference: str | None
) -> dict[str, Any]:
    """Decide whether a model is promoted.

    A model is rejected if its main metric is below the reference's minus the tolerance: of the
    rules compared in docs/evaluation.md this one loses least. A first model is rejected if the
    paired 95% interval of its difference to the label holder's columns alone is below zero.

    If the metric is undefined, like the AUC of held-out rows of one class, nothing is promoted.

    Args:
        context: The label holder's context.
        task: The label's task.
        comparison: Held-out rows with the new model in the scoring mode, the label holder's
            columns `ALONE`, and `REFERENCE` if it can predict these rows.
        reference: The version to compare with, from `reference_of`; None before the first.

    Returns:
        ``promote``, ``why`` in public words, ``metric``, ``tolerance``, ``new``, ``against``, the
        reference's ``version`` and ``value``, the ``gain`` with its interval, and the
        ``detectable`` difference, which a 95% interval detects in 80% of draws of held-out rows.
    """
    metric, mode = metrics.main_metric(task), context.federation.scoring.mode
    tolerance = context.federation.training.tolerance
    new = f"federated_{mode}"
    result: dict[str, Any] = {
        "metric": metric,
        "tolerance": tolerance,
        "new": comparison.evaluated(new).get(metric),
        "version": reference,
        "value": None,
        "gain": None,
        "detectable": None,
    }
    if metric not in comparison.names():
        against = "alone" if reference is None else "reference"
        return result | {"promote": False, "why": _undefined(metric), "against": against}
    if reference is None:
        gain = comparison.gain(new, ALONE, metric)
        return result | _first_decision(
            context, metric, comparison.interval(ALONE, metric).value, gain
        )
    if comparison.has(REFERENCE):
        value = comparison.interval(REFERENCE, metric).value
        gain = comparison.gain(new, REFERENCE, metric)
        rows = "on the same rows"
    else:
        files = context.registry.files(reference)
        values = recorded_metrics(files["evaluation.json"], mode)
        why = ""
        if metric not in values:
            why = f"knows other columns and was never evaluated in mode {mode} by {metric}"
        elif federation_in(files).keeps_all != context.federation.keeps_all:
            # The common people are easier to predict than everyone: differences mean nothing.
            why = "was evaluated on other people, since alignment.overlap has changed"
        if why:
            why = f"version {reference} {why}: compare them, and promote one by hand"
            return {**result, "promote": False, "against": "reference", "why": why}
        value = values[metric]
        interval = comparison.interval(new, metric)
        gain = Interval(interval.value - value, interval.low - value, interval.high - value)
        rows = "on its own held-out rows, because columns have changed"
    by_hand = approved(context.registry) == reference
    who = "which a person approved" if by_hand else "the best so far"
    promote = gain.value >= -tolerance
    why = (
        f"{metric} {result['new']:.4f} in mode {mode} against {value:.4f} of version {reference}, "
        f"{who}, {rows}: {_signed(gain)}; {_verdict(gain, promote)}"
        f"{_within(tolerance, _detectable(gain))}"
    )
    return {
        **result,
        "value": value,
        "gain": gain.document(),
        "detectable": _detectable(gain),
        "against": "reference",
        "promote": promote,
        "why": why,
    }


def private_gate(
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
    detectable = None if error is None else _DETECTED * error
    result |= {"version": None, "value": None, "detectable": detectable}
    if metric not in new:
        return {**result, "promote": False, "why": _undefined(metric)}
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
        f"version {reference}, the best so far, on {rows}{_within(tolerance, detectable)}"
    )
    return {**result, "value": value, "promote": promote, "why": why}


def unless_repeated(context: Context, model: str, decision: dict[str, Any]) -> dict[str, Any]:
    """Return the gate's decision, or a rejection if the model equals the champion (``repeats``).

    The same trees under another declaration are a change, because new rows are scored under a
    version's own declaration.

    Args:
        context: The label holder's context; in horizontal learning any party's.
        model: The new model.
        decision: The gate's decision.
    """
    champion = present_champion(context)
    if champion is None:
        return decision
    registry = context.registry
    names = registry.names(champion)
    new = version_files(context, model).items()
    if any(name not in names or registry.file(champion, name) != raw for name, raw in new):
        return decision
    why = (
        f"nothing has changed: the model is that of version {champion}, the champion, trained "
        "under the same declaration"
    )
    return {**decision, "promote": False, "repeats": champion, "why": why}


def unless_overtaken(context: Context, decision: dict[str, Any]) -> dict[str, Any]:
    """Return the gate's decision, or a rejection if its reference is no longer the current one.

    An outage or a person may delay a run's registration, and the champion may change meanwhile. In
    horizontal learning each party selects the reference at each evaluation.

    Args:
        context: The label holder's context; in horizontal learning any party's.
        decision: The gate's decision.

    Returns:
        The decision; of a rejection here, ``overtaken`` names the reference of the run's plan, and
        ``gate_why`` keeps the gate's reason, which a card states whenever it is written.
    """
    registry = context.registry
    decided = next((e.event for e in registry.history() if e.version == context.run), None)
    # A run that was killed during its promotion is champion without a decision in the history.
    promoted = decided == "promoted" or (decided is None and registry.champion() == context.run)
    if not decision["promote"] or promoted:
        return decision
    if context.federation.learning == "horizontal":
        return decision
    now = (registry.champion(), reference_of(context.federation, registry, context.run))
    if now == (context.model, context.reference):
        return decision
    compared = f"version {context.reference}" if context.reference else "no earlier version"
    why = (
        "the champion has changed since the run began, and the model was compared with "
        f"{compared}: compare them, and promote one by hand"
    )
    facts = {"overtaken": context.reference or "", "gate_why": decision["why"]}
    return {**decision, **facts, "promote": False, "why": why}


def intervals_of(comparison: Comparison, new: str) -> dict[str, Any]:
    """Return the intervals for a version's evaluation.

    Args:
        comparison: The models on the held-out rows.
        new: Name of the new model.

    Returns:
        ``interval_method`` in words; ``heavy_tailed`` for the new model's errors; ``intervals`` by
        model and metric; and ``gains`` of the new model over each other model, by metric, positive
        if the new one is better, also for losses.
    """
    others = [name for name in comparison.models() if name != new]
    return {
        "interval_method": METHOD,
        "heavy_tailed": comparison.heavy_tailed(new),
        "intervals": {
            name: {m: comparison.interval(name, m).document() for m in comparison.names()}
            for name in comparison.models()
        },
        "gains": {
            name: {m: comparison.gain(new, name, m).document() for m in comparison.names()}
            for name in others
        },
    }


def _first_decision(context: Context, metric: str, alone: float, gain: Interval) -> dict[str, Any]:
    horizontal = context.federation.learning == "horizontal"
    own = "this party's rows alone" if horizontal else "the label holder's columns alone"
    others = "rows do not pay" if horizontal else "columns do not pay at this epsilon"
    mode = context.federation.scoring.mode
    detail = (
        f"{metric} {alone + gain.value:.4f} in mode {mode} against {alone:.4f} of {own}: "
        f"{_signed(gain)}{_within(0.0, _detectable(gain))}"
    )
    if gain.high < 0:
        why = f"the other parties' {others}: {detail}"
    elif gain.low > 0:
        why = f"the first model: {detail}"
    else:
        why = f"the first model: no gain shown: {detail}"
    result: dict[str, Any] = {"promote": gain.high >= 0, "why": why, "against": "alone"}
    return result | {
        "value": alone,
        "gain": gain.document(),
        "detectable": _detectable(gain),
    }


def _verdict(gain: Interval, promote: bool) -> str:
    if gain.high < 0:
        return "shown to be worse"
    if gain.low > 0:
        return "better"
    return "no gain shown" if promote else "worse on these rows, and not shown to be"


def _detectable(gain: Interval) -> float:
    return _DETECTED / _QUANTILE * (gain.high - gain.low) / 2


def _signed(gain: Interval) -> str:
    return f"{gain.value:+.4f} (95 %: {gain.low:+.4f} to {gain.high:+.4f})"


def _undefined(metric: str) -> str:
    """Return the public reason why a model with an undefined main metric is not promoted.

    Args:
        metric: Name of the metric.
    """
    return f"{metric} is undefined: all held-out rows have one label"


def _within(tolerance: float, detectable: float | None) -> str:
    """Return the tolerance and the detectable difference as the end of a reason.

    Args:
        tolerance: The declared tolerance.
        detectable: In the metric's unit; None if unknown.
    """
    allowed = f", tolerance {tolerance:g}" if tolerance else ""
    if detectable is None:
        return allowed
    return f"{allowed}; these rows detect a difference of {detectable:.4f}"


def _greatest_variance(context: Context) -> float:
    """Return a label's largest possible variance within its public bounds.

    The label's own variance would be an exact disclosure.
    """
    label = context.declared.label
    assert label is not None and label.bounds is not None
    return ((label.bounds[1] - label.bounds[0]) / 2) ** 2
