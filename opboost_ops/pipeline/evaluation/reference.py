"""The reference of a new model: the version that the gate compares it with.

The reference is the last version that a person approved with `opboost models promote` or
`rollback`. Without one, it is the best version that ever became champion, so that the bar never
drops with the current champion. Only comparable versions count: trained on the same columns with
the same maps, for the same label, and evaluated on the same kind of rows.
"""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.columns import EVERYONE, columns_of, shared_columns
from opboost_ops.config.federation import Federation
from opboost_ops.errors import OpBoostError
from opboost_ops.learning import metrics
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.learning.registry.registry import Registry, federation_in, has_model, model_in
from opboost_ops.pipeline.stage import Context


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


def recorded_metrics(evaluation: bytes, mode: str) -> dict[str, float]:
    """Return a version's recorded metrics in a scoring mode; empty without an evaluation in it.

    Args:
        evaluation: The version's ``evaluation.json``.
        mode: The mode.
    """
    return dict(json.loads(evaluation)["metrics"].get(f"federated_{mode}", {}))


def noisy_metrics_of(federation: Federation) -> bool:
    """Return True if held-out metrics have noise.

    Args:
        federation: The federation of the run.
    """
    private = federation.training.private
    return private is not None and private.metrics_epsilon is not None


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


def present_champion(context: Context) -> str | None:
    """Return the champion's version; None before the first, or if it is this run's.

    Args:
        context: The label holder's context.
    """
    champion = context.registry.champion()
    return None if champion == context.run else champion


def version_files(context: Context, model: str) -> dict[str, bytes]:
    """Return the files of a version with its model and the declaration it was trained under.

    Args:
        context: The label holder's context; in horizontal learning any party's.
        model: The model's text.
    """
    plan = context.acceptance.plan
    return {
        format_of(context.federation.training.trainer).file: model.encode(),
        "federation.json": context.federation.model_dump_json(indent=1).encode(),
        # New rows are scored under the agreement in force when the version was trained.
        "agreement.json": json.dumps(
            {"digest": plan.agreement, "protocol": plan.protocol}
        ).encode(),
    }


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
