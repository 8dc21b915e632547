"""The model card: parties, training, metrics, privacy losses, disclosures and limits of a model."""

from collections.abc import Mapping, Sequence
from platform import python_version
from typing import Any

import numpy as np

from opboost_ops import __version__
from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.learning.registry.card_words import (
    CENTRALISED,
    POOLED,
    ModeLine,
    Promise,
    alignment_words,
    modes_of,
    private_words,
    training_words,
)
from opboost_ops.learning.registry.importance import Importance, ImportanceLine, columns_by_feature
from opboost_ops.privacy.consent.exposure import exposure_words
from opboost_ops.privacy.loss import LossCurve

_NOT_PRIVATE = "The model is not differentially private towards the label holder's own rows."

_LIMITS = (
    "The model was trained on randomised values of other parties' features: single predictions "
    "can be far off although the average is good.",
    "Its metrics name their mode. In mode desensitised, protected features of the held-out rows "
    "were randomised too, as those of new rows are.",
    _NOT_PRIVATE,
    "It expects protected features as integers of the declared domain, mapped as declared.",
)

#: Disclosures of a run; {label} is the label holder, {holders} are the feature holders.
_DISCLOSED = (
    "{label} received the randomised values of each protected feature of {holders}, as ranks among "
    "all rows of the table. Each person in the table incurs the loss curve beside the feature. The "
    "ranks show which randomised values occur at {holders}.",
    "{holders} learned from {label} at which ranks of these features the trees split (exact, no "
    "epsilon).",
    "{label} received the randomised domain values at those ranks; they follow from values that "
    "were already randomised and charged.",
    "Everyone who sees the run learned whether there is a new champion, and that all checks passed "
    "(exact, no epsilon); the metrics above, row counts, intervals and curves stay with {label}.",
    "The importance of features is only on this card, which stays with {label}. It follows from "
    "the rows of {label} and from randomised values that it had already received.",
)

#: Replaces "exact, no epsilon" for split requests of differentially private trees.
_COVERED = "it follows from the model, whose epsilon is above"

#: Replaces the last two lines if metrics have noise.
_NOISY = (
    "Everyone who sees the run learned row counts, and that all checks passed (exact, no epsilon); "
    "the metrics above have noise."
)

#: Further disclosures if the model is evaluated in mode routed.
_ROUTED = (
    "{holders} learned from {label} at which domain values of these features the trees split "
    "(exact, no epsilon).",
    "{label} received, for every held-out row that it can open, on which side of each of those "
    "thresholds its value lies. No epsilon bounds this; each holder's ledger lists it as exact.",
)


_NOT_PRIVATE_SUMS = (
    "The model is not differentially private: it contains ends of buckets, which are values of "
    "people, and row counts and sums of its nodes."
)

#: Limits that do not apply to a differentially private model.
_UNLESS_PRIVATE = (_NOT_PRIVATE, _NOT_PRIVATE_SUMS)

_HORIZONTAL_LIMITS = (
    _NOT_PRIVATE_SUMS,
    "Its metrics are of this party's own held-out rows; another party's rows may differ.",
    "It expects raw numbers; for categories, it expects positions or bits as declared.",
)

#: Disclosures of a run of horizontal learning; {active} is the active party.
_SUMMED = (
    "{active} received sums over all parties, with each party's contribution under masks that "
    "cancel: rows and labels, points of each column's distribution function, and gradients, "
    "hessians and rows by bucket and node (exact, no epsilon). Two runs that differ by one person "
    "reveal that person's label and the bucket of each value.",
    "All parties learned the ends of the buckets and this model (exact, no epsilon).",
    "If parties collude, all but two of them at most, they learn the sum over the other parties, "
    "but not the contribution of each.",
    "Everyone who sees the run learned row counts, metrics on held-out rows, and that all checks "
    "passed (exact, no epsilon).",
)

#: Replaces the last line if metrics have noise, too.
_METRICS_WITH_NOISE = (
    "Everyone who sees the run learned how many rows are held out, that all checks passed (exact, "
    "no epsilon), and the metrics above, which have noise."
)

#: Disclosures if sums have noise.
_SUMMED_WITH_NOISE = (
    "{active} received sums over all parties with every party's noise and with each party's "
    "contribution under masks that cancel: rows of each class or labels, rows by cell of each "
    "column, and gradients and hessians by bucket and node. Their privacy loss is stated above.",
    _SUMMED[2],
    "Everyone who sees the run learned metrics on held-out rows, and that all checks passed "
    "(exact, no epsilon).",
)


class PartyLine(Record):
    """One party on the card.

    Attributes:
        name: Name of the party.
        role: ``label_holder``, ``feature_holder`` or another declared role.
        features: Number of its features.
        splits: Number of splits on its features, over all trees.
    """

    name: str
    role: str
    features: int
    splits: int


class CoverageLine(Record):
    """Held-out rows of people that all, some or none of the feature holders have.

    Attributes:
        rows: Number of rows.
        metrics: Metrics of these rows, as in `Card.metrics`; empty if all have the same label.
    """

    rows: int
    metrics: Mapping[str, Mapping[str, float]]


class FeatureLine(Record):
    """One feature on the card; ``domain`` is None if it is the federation's."""

    party: str
    name: str
    type: str
    domain: tuple[int, int] | None = None
    mechanism: str | None
    loss: LossCurve | None
    splits: int


class Card(Record):
    """A model's card.

    Attributes:
        federation: Name of the federation.
        run: ID of the run, which is also the version.
        task: The task of the label.
        label: The label column.
        classes: Classes of the label in order; of two, the second is positive.
        domain: Bounds L and R of features without a domain of their own.
        training: Booster and parameters.
        training_words: Explanations of the training.
        training_rows: Number of training rows.
        metrics: Metrics by trained model and scoring mode.
        coverage: With ``overlap: left``, metrics of ``complete``, ``partial`` and ``own`` rows.
        private: Guarantees of a differentially private model and their limits; empty for others.
        modes: Descriptions of the keys of ``metrics``, with the disclosures of each mode.
        centralised: Why there are no metrics of a model on joined rows.
        held_out_rows: Number of held-out rows in the metrics.
        parties: Parties with their roles and numbers of features.
        features: All features with mechanism, loss curve and number of splits.
        importance: Importance of the features, in descending order.
        importance_rows: Number of held-out rows in the importance.
        disclosed: Disclosures of the run.
        limits: Limits of the model.
        experiment: True if noise was predictable or edges came from a private table, so that there
            is no guarantee.
        software: Versions of libraries by name.
    """

    version: int = 1
    federation: str
    run: str
    task: str
    label: str
    classes: tuple[str | int, ...] = ()
    domain: tuple[int, int]
    training: Mapping[str, Any]
    training_words: tuple[str, ...] = ()
    training_rows: int
    metrics: Mapping[str, Mapping[str, float]]
    coverage: Mapping[str, CoverageLine] = {}
    private: tuple[str, ...] = ()
    modes: tuple[ModeLine, ...]
    centralised: str
    held_out_rows: int
    parties: tuple[PartyLine, ...]
    features: tuple[FeatureLine, ...]
    importance: tuple[ImportanceLine, ...] = ()
    importance_rows: int = 0
    disclosed: tuple[str, ...]
    limits: tuple[str, ...]
    experiment: bool
    software: Mapping[str, str]

    def json_bytes(self) -> bytes:
        """Return the card as JSON."""
        return self.model_dump_json(indent=1).encode()


def make_card(
    *,
    federation: Federation,
    run: str,
    evaluation: Mapping[str, Any],
    training_rows: int,
    losses: Mapping[str, LossCurve],
    splits: Mapping[str, int],
    experiment: bool,
    importance: Importance | None = None,
    tuned: Mapping[str, Any] | None = None,
    classes: Sequence[str | int] = (),
    promise: Promise | None = None,
) -> Card:
    """Return a model's card.

    Args:
        federation: The federation of the training.
        run: ID of the run.
        evaluation: ``rows`` and ``metrics`` of the held-out rows, and the training of ``alone``.
        training_rows: Number of training rows.
        losses: Loss curves by full feature name, as published with the releases.
        splits: Number of splits over all trees, by full column name.
        experiment: There is no guarantee, for example because noise was predictable.
        importance: Importance of the features; None omits it.
        tuned: Result of the parameter search.
        classes: Classes of the label, in order.
        promise: Facts on a private model.
    """
    label = federation.parties[federation.label_holder].label
    assert label is not None
    backend = format_of(federation.training.trainer)
    private = private_words(federation, promise)
    limits = _LIMITS if federation.learning == "vertical" else _HORIZONTAL_LIMITS
    lines: list[FeatureLine] = []
    for (party, name), columns in columns_by_feature(federation).items():
        owner = party if federation.learning == "vertical" else federation.label_holder
        declared = federation.parties[owner].features
        curve = losses.get(f"{party}.{name}")
        lines.append(
            FeatureLine(
                party=party,
                name=name,
                type=declared[name].type if name in declared else "missing bit",
                domain=_own_domain(federation, declared.get(name)),
                mechanism=curve.mechanism if curve else None,
                loss=curve,
                splits=sum(splits.get(column, 0) for column in columns),
            )
        )
    return Card(
        federation=federation.name,
        run=run,
        task=label.task,
        label=label.column,
        classes=tuple(classes),
        domain=(federation.domain.lower, federation.domain.upper),
        training=_training(federation, tuned or {}),
        training_words=tuple(training_words(federation, tuned or {}, evaluation.get("alone", {}))),
        training_rows=training_rows,
        metrics=evaluation["metrics"],
        coverage=evaluation.get("coverage", {}),
        private=private,
        modes=modes_of(federation, evaluation["metrics"]),
        centralised=CENTRALISED if federation.learning == "vertical" else POOLED,
        held_out_rows=evaluation["rows"],
        parties=tuple(
            PartyLine(
                name=name,
                role=spec.role,
                features=len(spec.features),
                splits=sum(line.splits for line in lines if line.party == name),
            )
            for name, spec in federation.parties.items()
        ),
        features=tuple(lines),
        importance=importance.lines if importance else (),
        importance_rows=importance.rows if importance else 0,
        disclosed=_disclosed(federation),
        limits=tuple(line for line in limits if not private or line not in _UNLESS_PRIVATE),
        experiment=experiment,
        software={
            "OpBoost Ops": __version__,
            backend.name: backend.version(),
            "NumPy": np.__version__,
            "Python": python_version(),
        },
    )


def _own_domain(federation: Federation, feature: Feature | None) -> tuple[int, int] | None:
    """Return the domain of a feature; None if it is the federation's."""
    if feature is None or feature.type == "nominal":
        return None
    declared = federation.domain.to_domain()
    domain = feature.domain_in(declared)
    return None if domain == declared else (domain.lower, domain.upper)


def _training(federation: Federation, tuned: Mapping[str, Any]) -> dict[str, Any]:
    facts = federation.training.model_dump(mode="json", exclude_none=True)
    if federation.denoising != "none":
        facts["denoise"] = federation.denoising
    if tuned:
        facts |= {name: tuned[name] for name in ("trees", "learning_rate", "depth")}
        facts["parameters"] |= tuned["own"]
    return {name: value for name, value in facts.items() if value != {}}


def _disclosed(federation: Federation) -> tuple[str, ...]:
    if federation.learning == "horizontal":
        noisy = federation.training.private
        summed = _SUMMED if noisy is None else _SUMMED_WITH_NOISE
        if noisy is not None and noisy.metrics_epsilon is not None:
            summed = (*_SUMMED_WITH_NOISE[:-1], _METRICS_WITH_NOISE)
        return tuple(line.format(active=federation.label_holder) for line in summed)
    holders = ", ".join(federation.feature_holders)
    lines: Sequence[str] = _DISCLOSED
    if "routed" in federation.scoring.modes:
        lines = (*_DISCLOSED, *_ROUTED)
    statements = tuple(
        line.format(label=federation.label_holder, holders=holders) for line in lines
    )
    exposed = (f"{holder}: {words}" for holder in federation.feature_holders
               if (words := exposure_words(federation, holder)))  # fmt: skip
    statements = (alignment_words(federation), *statements, *exposed)
    private = federation.training.private
    if private is None:
        return statements
    # Split points of private trees are covered by the model's epsilon.
    statements = tuple(
        line.replace("exact, no epsilon", _COVERED) if "the trees split" in line else line
        for line in statements
    )
    if private.metrics_epsilon is None:
        return statements
    exact = [
        line for line in statements if "the metrics above" not in line and "importance" not in line
    ]
    return (*exact, _NOISY)
