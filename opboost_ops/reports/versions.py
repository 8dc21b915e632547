"""The view of a federation's models: versions, champion, decisions, and each version's content.

Pages, command line, card and `status.json` show this view and recompute nothing. Versions are read
as plain JSON, because an old version has the format of the software that wrote it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError, OpBoostError
from opboost_ops.learning.metrics import Interval
from opboost_ops.learning.registry.registry import Decision, Registry
from opboost_ops.reports.display.blocks import Cell, number

#: The mode by which versions are compared, if they have it.
MAIN_MODE = "federated_desensitised"

#: The baseline of a version's gains, on the same rows.
ALONE = "label_holder_alone"

#: Metrics in display order; versions are compared by the first one that they have.
_RANK = ("auc", "r2", "accuracy", "mse", "brier", "log_loss", "mae")

#: Display names of decisions.
DECISIONS = {"promoted": "promoted", "kept": "rejected", "rolled back": "rolled back"}

#: A feature by its party and name.
Key = tuple[str, str]


def mode_words(mode: str) -> str:
    """Return the words for a mode of evaluation, as named in a version's metrics."""
    words = mode.replace("_", " ")
    return f"mode {words.removeprefix('federated ')}" if mode.startswith("federated_") else words


def by_rank(names: Iterable[str]) -> list[str]:
    """Sort metrics into display order."""
    return sorted(names, key=lambda name: (_RANK.index(name) if name in _RANK else 99, name))


def interval_cell(interval: Interval, sign: str = "") -> Cell:
    """Return a metric with its interval as a table cell.

    Args:
        interval: The metric.
        sign: ``+`` to show the sign of differences.
    """
    return Cell(f"{interval:{sign}}", interval.value)


@dataclass(frozen=True)
class Version:
    """A model version.

    Attributes:
        name: Its id, which is also the run's.
        card: Content of ``card.json``; empty if unreadable.
        evaluation: Content of ``evaluation.json``.
        scoring: How its scores are computed: threshold, calibration and interval.
        decision: The last decision about it.
        champion: True if it is the champion.
    """

    name: str
    card: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    scoring: Mapping[str, Any] = field(default_factory=dict)
    decision: Decision | None = None
    champion: bool = False

    @property
    def mode(self) -> str:
        """Name of the scoring mode in the metrics, by which the version is judged."""
        return f"federated_{self.evaluation.get('mode', 'desensitised')}"

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by mode and name."""
        metrics = _dict(self.evaluation, "metrics") or _dict(self.card, "metrics")
        return {mode: {k: float(v) for k, v in _dict(metrics, mode).items()} for mode in metrics}

    @property
    def coverage(self) -> dict[str, Mapping[str, Any]]:
        """With ``overlap: left``, rows and metrics of complete, partial and own rows."""
        return _dict(self.card, "coverage")

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Intervals in the scoring mode, by metric."""
        return _intervals(_dict(_dict(self.evaluation, "intervals"), self.mode))

    @cached_property
    def gains(self) -> dict[str, Interval]:
        """Gains over the label holder's columns alone, by metric."""
        return self.gains_over(ALONE)

    def gains_over(self, other: str) -> dict[str, Interval]:
        """Return the gains over another model on the same rows, by metric; empty if unknown."""
        return _intervals(_dict(_dict(self.evaluation, "gains"), other))

    @property
    def curves(self) -> dict[str, Any]:
        """Curves on the held-out rows by model, with this version in its mode first."""
        curves = _dict(self.evaluation, "curves")
        return dict(sorted(curves.items(), key=lambda pair: pair[0] != self.mode))

    @property
    def training(self) -> dict[str, Any]:
        """Trainer and training parameters."""
        return _dict(self.card, "training")

    @property
    def classes(self) -> list[str]:
        """Names of the label's classes; empty in regression."""
        return [str(name) for name in self.card.get("classes") or ()]

    @property
    def features(self) -> list[Mapping[str, Any]]:
        """Features of the card: party, name, mechanism, loss and splits."""
        return _dicts(self.card, "features")

    @property
    def protected(self) -> dict[Key, Mapping[str, Any]]:
        """Features with a mechanism."""
        return {key_of(f, "name"): f for f in self.features if f.get("loss")}

    @cached_property
    def splits(self) -> dict[Key, int]:
        """Number of splits by feature, over all trees."""
        return {key_of(f, "name"): int(f.get("splits") or 0) for f in self.features}

    @property
    def by_splits(self) -> bool:
        """True if importance is the share of splits, because the card has no other."""
        return not _dicts(self.card, "importance")

    @cached_property
    def shares(self) -> dict[Key, float]:
        """Importance by feature in descending order; sums to 1."""
        whole = sum(self.splits.values()) or 1
        shares = {key: splits / whole for key, splits in self.splits.items()}
        if not self.by_splits:
            lines = _dicts(self.card, "importance")
            shares = {key_of(i, "feature"): float(i.get("share") or 0) for i in lines}
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))

    @property
    def shares_by_party(self) -> dict[str, float]:
        """Importance by party in descending order."""
        by_party: dict[str, float] = {}
        for (party, _), share in self.shares.items():
            by_party[party] = by_party.get(party, 0.0) + share
        return dict(sorted(by_party.items(), key=lambda pair: -pair[1]))

    @property
    def parties(self) -> list[str]:
        """Names of all parties of its federation."""
        return [str(party.get("name")) for party in _dicts(self.card, "parties")]

    @property
    def rows(self) -> int:
        """Number of held-out rows behind the metrics."""
        return int(self.card.get("held_out_rows") or 0)

    @property
    def main(self) -> str:
        """Name of the metric by which it is judged; empty without metrics."""
        return next(iter(by_rank(self.metrics.get(self.mode, {}))), "")

    def judged(self, metric: str = "") -> Interval | None:
        """Return a metric in the scoring mode, with its interval.

        Args:
            metric: Name of the metric; the main one by default.
        """
        name = metric or self.main
        if name in self.intervals:
            # Not from `metrics`, whose noisy or older value may differ slightly.
            return self.intervals[name]
        value = self.metrics.get(self.mode, {}).get(name)
        return None if value is None else Interval(value)

    @property
    def verdict(self) -> str:
        """The last decision in one word; empty without one."""
        return DECISIONS[self.decision.event] if self.decision else ""

    def epsilon(self) -> Cell:
        """Return the range of its features' epsilons."""
        epsilons = sorted({float(f["loss"]["epsilon"]) for f in self.protected.values()})
        if not epsilons:
            return Cell("none", "")
        if len(epsilons) == 1:
            return number(epsilons[0], 4 if epsilons[0] < 0.01 else 2)
        return Cell(f"{epsilons[0]:g} to {epsilons[-1]:g}")

    def parameters(self) -> str:
        """Return a short summary of its training parameters."""
        values = {name: self.training.get(name) for name in ("trees", "depth", "learning_rate")}
        words = {"trees": "{} trees", "depth": "depth {}", "learning_rate": "rate {}"}
        return ", ".join(words[name].format(v) for name, v in values.items() if v is not None)


class Models:
    """The models of one federation; versions are read lazily.

    Args:
        folder: The label holder's models folder.
        federation: Name of the federation.

    Attributes:
        champion: Id of the champion; None before the first one, or if unreadable.
        fault: Why the champion is unreadable.
        history: All decisions, oldest first.
        names: Ids of all versions, newest first.
    """

    def __init__(self, folder: Path, federation: str) -> None:
        self.registry = Registry(folder, federation)
        self.federation = federation
        self.champion: str | None = None
        self.fault: ContractError | None = None
        try:
            self.champion = self.registry.champion()
        except ContractError as error:
            self.fault = error
        self.history = self.registry.history()
        self.names = self.registry.versions()[::-1]
        self._last = {entry.version: entry for entry in self.history}
        self._read: dict[str, Version] = {}

    def version(self, name: str) -> Version:
        """Return a version; unreadable parts of it are empty.

        Args:
            name: One of `names`.

        Raises:
            ContractError: There is no such version.
        """
        if name not in self.names:
            raise ContractError(f"There is no model version {name}.")
        if name not in self._read:
            evaluation = self._json(name, "evaluation.json")
            scoring = _dict(self._json(name, "scoring.json"), str(evaluation.get("mode")))
            self._read[name] = Version(
                name,
                self._json(name, "card.json"),
                evaluation,
                scoring,
                self._last.get(name),
                name == self.champion,
            )
        return self._read[name]

    def _json(self, name: str, file: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self.registry.file(name, file)))
        except (OpBoostError, ValueError, TypeError):
            return {}


def federations_in(models: Path) -> list[str]:
    """Return the federations that have models in a label holder's models folder."""
    if not models.is_dir():
        return []
    return sorted(p.name for p in models.iterdir() if p.is_dir() and p.name[0] != ".")


def models_of(site: Site, federation: str) -> Models:
    """Return a label holder's models of a federation.

    Raises:
        ContractError: There are none.
    """
    if federation not in federations_in(site.models):
        raise ContractError(f"{site.party} has no models of {federation}.")
    return Models(site.models, federation)


def key_of(line: Mapping[str, Any], name: str) -> Key:
    """Return the party and name of a feature in one of the card's lists."""
    return str(line.get("party")), str(line.get(name))


def _dict(mapping: Any, key: str) -> dict[str, Any]:
    inside = mapping.get(key) if isinstance(mapping, Mapping) else None
    return dict(inside) if isinstance(inside, Mapping) else {}


def _dicts(mapping: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = mapping.get(key)
    return [i for i in listed if isinstance(i, Mapping)] if isinstance(listed, list) else []


def _intervals(intervals: Mapping[str, Any]) -> dict[str, Interval]:
    return {
        name: Interval(float(of["value"]), float(of["low"]), float(of["high"]))
        for name, of in intervals.items()
        if isinstance(of, Mapping) and of.keys() >= {"value", "low", "high"}
    }
