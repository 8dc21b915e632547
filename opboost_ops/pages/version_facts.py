"""What a model version says of itself: metrics with intervals, gains, parameters, importance."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opboost_ops.errors import OpBoostError
from opboost_ops.models.registry import Registry
from opboost_ops.pages.blocks import Cell, number

#: The mode by which versions are compared, where they have it.
MAIN_MODE = "federated_desensitised"

#: What a version's model is compared with on the same rows.
ALONE = "label_holder_alone"

#: Metrics by which versions are compared, the first that there is.
_MAIN = ("auc", "r2", "accuracy", "mse")


def mode_words(mode: str) -> str:
    """What was evaluated, in words.

    Args:
        mode: As a version's metrics name it.
    """
    words = mode.replace("_", " ")
    return f"mode {words.removeprefix('federated ')}" if mode.startswith("federated_") else words


def by_rank(names: Iterable[str]) -> list[str]:
    """Metrics in the order in which they are looked at: the one that decides comes first.

    Args:
        names: Of metrics.
    """
    return sorted(names, key=lambda name: (_MAIN.index(name) if name in _MAIN else 99, name))


@dataclass(frozen=True)
class Interval:
    """A number, and the 95 % interval around it where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    def cell(self, sign: str = "") -> Cell:
        """As a cell of a table.

        Args:
            sign: A plus for differences.
        """
        if self.low is None or self.high is None:
            return Cell(f"{self.value:{sign}.4f}", self.value)
        return Cell(
            f"{self.value:{sign}.4f} ({self.low:{sign}.4f} to {self.high:{sign}.4f})", self.value
        )


@dataclass(frozen=True)
class VersionFacts:
    """One version, read as plain JSON: it keeps what the software of its day has written.

    Attributes:
        metrics: By mode, then by name.
        mode: That of scoring: the one by which it is judged.
        intervals: Of that mode, by metric.
        gains: Over the label holder's columns alone, by metric.
        curves: Of that mode.
        training: Booster and parameters.
        epsilons: By party and feature, of the protected ones.
        mechanisms: Likewise, in words.
        shares: Importance by party and feature; of the splits where there is no other.
        by_splits: Whether it is of the splits.
        rows: How many held-out rows the metrics stand on.
    """

    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    mode: str = MAIN_MODE
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    gains: Mapping[str, Interval] = field(default_factory=dict)
    curves: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    epsilons: Mapping[tuple[str, str], float] = field(default_factory=dict)
    mechanisms: Mapping[tuple[str, str], str] = field(default_factory=dict)
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    by_splits: bool = False
    rows: int = 0

    @property
    def main(self) -> str:
        """Name of the metric by which it is judged; empty if it has none."""
        known = self.metrics.get(self.mode, {})
        return next((name for name in _MAIN if name in known), next(iter(known), ""))

    def judged(self, metric: str = "") -> Interval | None:
        """A metric in the mode of scoring, with its interval.

        Args:
            metric: Which; the main one when absent.
        """
        name = metric or self.main
        if name in self.intervals:
            # A noisy or older figure beside it would be another number for the same thing.
            return self.intervals[name]
        value = self.metrics.get(self.mode, {}).get(name)
        return None if value is None else Interval(value)

    def epsilon(self) -> Cell:
        """The epsilons of its features, as a span."""
        found = sorted(set(self.epsilons.values()))
        if not found:
            return Cell("none", "")
        if len(found) == 1:
            return number(found[0], 4 if found[0] < 0.01 else 2)
        return Cell(f"{found[0]:g} to {found[-1]:g}")

    def parameters(self) -> str:
        """What it was trained with, shortly."""
        training = self.training
        told = [f"{training[k]:,} {k}" for k in ("trees",) if isinstance(training.get(k), int)]
        told += [f"depth {training['depth']}"] if "depth" in training else []
        told += [f"rate {training['learning_rate']}"] if "learning_rate" in training else []
        return ", ".join(told)


def version_facts(registry: Registry, version: str) -> VersionFacts:
    """What a version says of itself; what cannot be read is left out, as its own page says why.

    Args:
        registry: Of its federation.
        version: Its name.
    """
    evaluation = _json(registry, version, "evaluation.json")
    card = _json(registry, version, "card.json")
    mode = f"federated_{evaluation.get('mode', 'desensitised')}"
    lines = _dicts(card, "features")
    protected = {(str(f.get("party")), str(f.get("name"))): f for f in lines if f.get("loss")}
    listed = _dicts(card, "importance")
    splits = {(str(f.get("party")), str(f.get("name"))): f.get("splits") or 0 for f in lines}
    whole = sum(splits.values()) or 1
    shares = {(str(i.get("party")), str(i.get("feature"))): i.get("share") or 0.0 for i in listed}
    return VersionFacts(
        metrics={
            mode: {k: float(v) for k, v in _dict(evaluation.get("metrics"), mode).items()}
            for mode in _dict(evaluation, "metrics")
        },
        mode=mode,
        intervals=_intervals(_dict(_dict(evaluation, "intervals"), mode)),
        gains=_intervals(_dict(_dict(evaluation, "gains"), ALONE)),
        curves=_dict(_dict(evaluation, "curves"), mode),
        training=_dict(card, "training"),
        epsilons={key: float(f["loss"]["epsilon"]) for key, f in protected.items()},
        mechanisms={key: str(f.get("mechanism")) for key, f in protected.items()},
        shares=shares or {key: found / whole for key, found in splits.items()},
        by_splits=not shares,
        rows=int(card.get("held_out_rows") or 0),
    )


def _json(registry: Registry, version: str, name: str) -> dict[str, Any]:
    try:
        return dict(json.loads(registry.file(version, name)))
    except (OpBoostError, ValueError, TypeError):
        return {}


def _dict(found: Any, key: str) -> dict[str, Any]:
    inside = found.get(key) if isinstance(found, Mapping) else None
    return dict(inside) if isinstance(inside, Mapping) else {}


def _dicts(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = found.get(key)
    return [i for i in listed if isinstance(i, Mapping)] if isinstance(listed, list) else []


def _intervals(found: Mapping[str, Any]) -> dict[str, Interval]:
    return {
        name: Interval(float(of["value"]), float(of["low"]), float(of["high"]))
        for name, of in found.items()
        if isinstance(of, Mapping) and of.keys() >= {"value", "low", "high"}
    }
