"""The gate of a new model, by how sure its difference is on the held-out rows."""

from typing import Any

from opboost_ops.learning import metrics
from opboost_ops.learning.intervals import METHOD, Comparison, Interval
from opboost_ops.learning.registry.registry import federation_in
from opboost_ops.pipeline.evaluation.gate import DETECTED, recorded_metrics, undefined, within
from opboost_ops.pipeline.evaluation.reference import approved
from opboost_ops.pipeline.stage import Context

#: What leaves of an evaluation: curves and all other intervals stay at home.
DISCLOSES = (
    "metrics of the model, and by how much it is better than another, with an interval: functions "
    "of the held-out rows and their labels"
)

#: Standard errors from the middle of a 95 % interval to its ends.
_QUANTILE = 1.96

#: How models are called in a `Comparison`, besides by their place in the metrics.
ALONE, REFERENCE = "label_holder_alone", "reference"


def interval_gate(
    context: Context, task: metrics.Task, comparison: Comparison, reference: str | None
) -> dict[str, Any]:
    """Decide about a model.

    It is rejected if its main metric is below the reference's minus the tolerance: of the rules in
    docs/evaluation.md this one loses least. A first model is rejected if the paired 95 % interval
    of its difference lies wholly below the label holder's columns alone.

    Where the metric is undefined, as the AUC of held-out rows of one class is, nothing is promoted.

    Args:
        context: The label holder's.
        task: What is learnt.
        comparison: Held-out rows with the new model in the mode of scoring, the label holder's
            columns `ALONE`, and `REFERENCE` where it can predict these rows.
        reference: The version to compare to, by `reference_of`; None before the first.

    Returns:
        ``promote``, ``why`` in public words, ``metric``, ``tolerance``, ``new``, ``against``, the
        reference's ``version`` and ``value``, the ``gain`` with its ends, and the ``detectable``
        difference, which a 95 % interval would show in 80 % of draws of the held-out rows.
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
        return result | {"promote": False, "why": undefined(metric), "against": against}
    if reference is None:
        gain = comparison.gain(new, ALONE, metric)
        return result | _first(context, metric, comparison.interval(ALONE, metric).value, gain)
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
            # The common people are easier to predict than everybody: a difference says nothing.
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
        f"{within(tolerance, _detectable(gain))}"
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


def intervals_of(comparison: Comparison, new: str) -> dict[str, Any]:
    """Intervals in a version's evaluation.

    Args:
        comparison: The models on the held-out rows.
        new: The new one's name among them.

    Returns:
        ``interval_method`` in words; ``heavy_tailed`` of the new model's errors; ``intervals`` by
        model and metric; and ``gains`` of the new one over each other model, by metric: above zero
        where the new one is better, also of a loss.
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


def _first(context: Context, metric: str, alone: float, gain: Interval) -> dict[str, Any]:
    horizontal = context.federation.learning == "horizontal"
    own = "this party's rows alone" if horizontal else "the label holder's columns alone"
    others = "rows do not pay" if horizontal else "columns do not pay at this epsilon"
    mode = context.federation.scoring.mode
    detail = (
        f"{metric} {alone + gain.value:.4f} in mode {mode} against {alone:.4f} of {own}: "
        f"{_signed(gain)}{within(0.0, _detectable(gain))}"
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
    return DETECTED / _QUANTILE * (gain.high - gain.low) / 2


def _signed(gain: Interval) -> str:
    return f"{gain.value:+.4f} (95 %: {gain.low:+.4f} to {gain.high:+.4f})"
