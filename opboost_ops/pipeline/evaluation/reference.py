"""The version that a new model is compared with, and whether the run only repeats it.

It is the last version that a person approved, by `opboost models promote` or `rollback`. Where
nobody has, it is the best of all that ever became champion: the bar never sinks with the present
one. Only comparable versions count: trained on the same columns by the same maps, for the same
label, and evaluated on the same kind of rows.
"""

import json
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.errors import OpBoostError
from opboost_ops.learning import metrics
from opboost_ops.learning.registry.registry import Registry, federation_in, has_model
from opboost_ops.pipeline.evaluation.gate import (
    noisy_metrics_of,
    present_champion,
    recorded_metrics,
    same_maps,
)
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.materialise import model_file


def approved(registry: Registry) -> str | None:
    """The last version that a person put into use; None before the first.

    The gate decides about a version once, and first: every later decision is a person's.

    Args:
        registry: Of the federation.
    """
    versions: set[str] = set()
    last = None
    for entry in registry.history():
        if entry.version in versions or entry.event == "rolled back":
            last = entry.version
        versions.add(entry.version)
    return last


def reference_of(federation: Federation, registry: Registry, run: str = "") -> str | None:
    """The version to compare a new model to.

    Args:
        federation: As it will be run.
        registry: Its versions.
        run: A run's id, whose own version does not count.

    Returns:
        Its name; the champion's where no version is comparable; None before the first champion.
    """
    champion = registry.champion()
    if champion is None or champion == run:
        return None
    by_hand = approved(registry)
    if by_hand is not None and by_hand != run and _same(federation, registry, by_hand):
        return by_hand
    used = {entry.version for entry in registry.history() if entry.event != "kept"}
    candidates = [version for version in registry.versions() if version in used and version != run]
    values = {version: _value(federation, registry, version) for version in candidates}
    # Of equals the earliest; maps are compared only until one is the same.
    ranked = sorted((-value, at) for at, value in enumerate(values.values()) if value is not None)
    for _, at in ranked:
        if _same(federation, registry, candidates[at]):
            return candidates[at]
    return champion


def _same(federation: Federation, registry: Registry, version: str) -> bool:
    """True if a version has the same columns, maps, label and overlap of rows."""
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


def _value(federation: Federation, registry: Registry, version: str) -> float | None:
    """A version's own main metric in the mode of scoring, greater is better; None without one."""
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
    """The declaration under which a version was trained, as files of the version.

    Args:
        context: The label holder's, or in horizontal learning any party's.
    """
    assert context.acceptance is not None
    plan = context.acceptance.plan
    return {
        "federation.json": context.federation.model_dump_json(indent=1).encode(),
        # New rows are scored under what was agreed when the version was made.
        "agreement.json": json.dumps(
            {"digest": plan.agreement, "protocol": plan.protocol}
        ).encode(),
    }


def unless_repeated(context: Context, model: str, decision: dict[str, Any]) -> dict[str, Any]:
    """The gate's decision; a repetition of the champion is rejected, which it ``repeats``.

    Another declaration is a change even where the trees are the same, because new rows are scored
    under a version's own declaration.

    Args:
        context: The label holder's, or in horizontal learning any party's.
        model: The new model.
        decision: What the gate returned.
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
