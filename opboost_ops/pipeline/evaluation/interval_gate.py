"""The gate of a new model: its reference version, and the uncertainty of the difference.

The reference is the last version that a person approved with `opboost models promote` or
`rollback`. Without one, it is the best version that ever became champion, so that the bar never
drops with the current champion. Only comparable versions count: trained on the same columns with
the same maps, for the same label, and evaluated on the same kind of rows.
"""

import json
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.errors import OpBoostError
from opboost_ops.learning import metrics
from opboost_ops.learning.intervals import METHOD, Comparison
from opboost_ops.learning.metrics import Interval
from opboost_ops.learning.registry.registry import Registry, federation_in, has_model
from opboost_ops.pipeline.evaluation.gate import (
    DETECTED,
    noisy_metrics_of,
    present_champion,
    recorded_metrics,
    same_maps,
    undefined,
    within,
)
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.materialise import model_file

#: Standard errors from the middle of a 95% interval to its ends.
_QUANTILE = 1.96

#: Names of models in a `Comparison`, besides their names in the metrics.
ALONE, REFERENCE = "label_holder_alone", "reference"


def approved(registry: Registry) -> str | None:
    """Return the last version that a person approved; None before the first.

    The gate decides on each version once, and first: every later decision is a person's.

    Args:
        registry: The federation's registry.
    """
    versions: set[str] = set()
    last = None
    for entry in registry.history():
        if entry.version in versions or entry.event == "rolled back":
            last = entry.version
        versions.add(entry.version)
    return last


def reference_of(federation: Federation, registry: Registry, run: str = "") -> str | None:
    """Return the version to compare a new model with.

    Args:
        federation: The federation of the run.
        registry: Its versions.
        run: A run ID, whose own version does not count.

    Returns:
        The version; the champion if no version is comparable; None before the first champion.
    """
    champion = registry.champion()
    if champion is None or champion == run:
        return None
    by_hand = approved(registry)
    if by_hand is not None and by_hand != run and _is_comparable(federation, registry, by_hand):
        return by_hand
    used = {entry.version for entry in registry.history() if entry.event != "kept"}
    candidates = [version for version in registry.versions() if version in used and version != run]
    values = {version: _own_metric(federation, registry, version) for version in candidates}
    # The earliest wins ties; maps are compared only until a version has the same ones.
    ranked = sorted((-value, at) for at, value in enumerate(values.values()) if value is not None)
    for _, at in ranked:
        if _is_comparable(federation, registry, candidates[at]):
            return candidates[at]
    return champion


def _is_comparable(federation: Federation, registry: Registry, version: str) -> bool:
    """Return True if a version has the same columns, maps, label and overlap of rows."""
    if not has_model(registry.names(version)):
        return False
    try:
        before = federation_in({"federation.json": registry.file(version, "federation.json")})
    except (OpBoostError, ValueError):
        return False
    then, now = (f.parties.get(federation.label_holder) for f in (before, federation))
    return (
        then is not None
        and now is not None
        and then.label == now.label
        and list(then.features) == list(now.features)
        and same_maps(before, federation)
    )


def _own_metric(federation: Federation, registry: Registry, version: str) -> float | None:
    """Return a version's recorded main metric in the scoring mode, greater is better, or None."""
    label = federation.label
    assert label is not None
    try:
        values = recorded_metrics(
            registry.file(version, "evaluation.json"), federation.scoring.mode
        )
    except (OpBoostError, ValueError, KeyError):
        return None
    metric = metrics.main_metric(label.task, noisy=noisy_metrics_of(federation))
    value = values.get(metric)
    if value is None:
        return None
    return -float(value) if metric in metrics.LOSSES else float(value)


def declaration_files(context: Context) -> dict[str, bytes]:
    """Return the declaration under which a version was trained, as files of the version.

    Args:
        context: The label holder's context; in horizontal learning any party's.
    """
    plan = context.acceptance.plan
    return {
        "federation.json": context.federation.model_dump_json(indent=1).encode(),
        # New rows are scored under the agreement in force when the version was trained.
        "agreement.json": json.dumps(
            {"digest": plan.agreement, "protocol": plan.protocol}
        ).encode(),
    }


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
    new = {model_file(context): model.encode(), **declaration_files(context)}
    if any(name not in names or registry.file(champion, name) != raw for name, raw in new.items()):
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
        return result | {"promote": False, "why": undefined(metric), "against": against}
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
