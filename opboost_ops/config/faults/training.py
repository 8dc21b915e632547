"""Inconsistencies of ``training``: parameters, objective, tuning, and differential privacy."""

from collections.abc import Iterator, Mapping
from typing import Any

from opboost_ops.config.faults.features import public_map_faults
from opboost_ops.config.federation import Federation, Label
from opboost_ops.config.parameters import ALLOWED, MONOTONE, parameter_fault
from opboost_ops.config.training import (
    BoosterTraining,
    FederBoostTraining,
    LightGBMTraining,
    SumPrivacy,
    XGBoostTraining,
)
from opboost_ops.errors import Fault

#: Objectives of each task; the first is the default.
OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "binary": ("binary",),
    "multiclass": ("multiclass",),
    "regression": ("l2", "l1", "huber", "quantile", "poisson", "tweedie"),
}

#: Parameters that apply to certain objectives only, by trainer.
_OF_OBJECTIVE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "lightgbm": {
        "alpha": ("huber", "quantile"),
        "tweedie_variance_power": ("tweedie",),
        "poisson_max_delta_step": ("poisson",),
        "scale_pos_weight": ("binary",),
        "is_unbalance": ("binary",),
    },
    "xgboost": {
        "huber_slope": ("huber",),
        "quantile_alpha": ("quantile",),
        "tweedie_variance_power": ("tweedie",),
        "scale_pos_weight": ("binary",),
    },
}

#: Objectives whose leaves are set to medians or quantiles after a tree has grown, and which
#: therefore ignore monotone constraints.
_LEAF_RENEWING = ("l1", "quantile")

#: Largest absolute domain value up to which 32-bit floats represent every midpoint of two integers.
_XGBOOST_MAX_ABSOLUTE = 2**22

#: Maximum learning rate with private sums, in which the ten trees of a round add up their steps.
_MAX_LEARNING_RATE = 0.2

#: Maximum domain size with DPBoost, for which every edge is a candidate split of every feature.
_DPBOOST_MAX_VALUES = 4096


def objective_of(training: BoosterTraining, task: str) -> str:
    """Return the objective that the booster minimises.

    Args:
        training: The declared entry.
        task: Task of the label.
    """
    return training.objective or OBJECTIVES[task][0]


def training_faults(federation: Federation, label: Label | None) -> Iterator[Fault]:
    """Yield faults of parameters, objective, weights, denoising, early stopping and tuning.

    Args:
        federation: The parsed federation file.
        label: The label; None if not declared.
    """
    training = federation.training
    if not isinstance(training, LightGBMTraining | XGBoostTraining):
        return
    if label is not None:
        yield from _objective_faults(training, label)
        yield from _weight_faults(federation, training, label)
    yield from _parameter_faults(training, label)
    yield from _monotone_faults(federation, training, label)
    yield from _search_faults(federation, training)
    if isinstance(training, XGBoostTraining):
        yield from _xgboost_faults(federation)


def _objective_faults(training: BoosterTraining, label: Label) -> Iterator[Fault]:
    if training.objective is not None and training.objective not in OBJECTIVES[label.task]:
        yield Fault(
            "training.objective",
            f"is {training.objective}, and the label's task is {label.task}",
            f"choose one of {', '.join(OBJECTIVES[label.task])}",
        )


def _weight_faults(
    federation: Federation, training: BoosterTraining, label: Label
) -> Iterator[Fault]:
    reserved = {federation.id.column: "the ID column", label.column: "the label"}
    if training.weight_column in reserved:
        yield Fault(
            "training.weight_column",
            f"is {reserved[str(training.weight_column)]}",
            "name a column of positive numbers",
        )


def _parameter_faults(
    training: LightGBMTraining | XGBoostTraining, label: Label | None
) -> Iterator[Fault]:
    allowed = ALLOWED[training.trainer]
    parameters = training.parameters
    for name, value in parameters.items():
        where = f"training.parameters.{name}"
        if name == MONOTONE:
            continue
        if name not in allowed:
            yield Fault(where, *parameter_fault(training.trainer, name))
        elif problem := allowed[name].problem_of(value):
            yield Fault(where, problem)
        elif label is not None:
            objective = objective_of(training, label.task)
            belongs = _OF_OBJECTIVE[training.trainer].get(name)
            if belongs is not None and objective not in belongs:
                yield Fault(
                    where,
                    f"is for objective {' or '.join(belongs)}, and the objective is {objective}",
                    "leave it out",
                )
            elif name == "alpha" and objective == "quantile" and not value < 1:
                yield Fault(where, "is not a quantile", "it is above 0 and below 1")
    share = {"lightgbm": "alpha", "xgboost": "quantile_alpha"}[training.trainer]
    if training.objective == "quantile" and share not in parameters:
        yield Fault(
            f"training.parameters.{share}", "is required of objective quantile", "for example 0.9"
        )
    if training.trainer == "lightgbm":
        yield from _lightgbm_faults(training, parameters)


def _lightgbm_faults(training: BoosterTraining, parameters: Mapping[str, Any]) -> Iterator[Fault]:
    where = "training.parameters."
    leaves = parameters.get("num_leaves", 0)
    if isinstance(leaves, int) and leaves > 2**training.depth:
        yield Fault(
            f"{where}num_leaves",
            f"is {leaves}, and a tree of depth {training.depth} has at most {2**training.depth}",
            f"declare training.depth of {(leaves - 1).bit_length()} or more",
        )
    if parameters.get("bagging_fraction", 1) != 1 and not parameters.get("bagging_freq"):
        yield Fault(
            f"{where}bagging_fraction",
            "does nothing without bagging_freq",
            "declare bagging_freq: 1 beside it",
        )
    if parameters.get("is_unbalance") and "scale_pos_weight" in parameters:
        yield Fault(f"{where}is_unbalance", "and scale_pos_weight have the same effect", "keep one")
    if parameters.get("path_smooth") and parameters.get("min_data_in_leaf", 2) == 1:
        yield Fault(f"{where}path_smooth", "needs min_data_in_leaf of 2 or more")
    if "monotone_constraints_method" in parameters and MONOTONE not in parameters:
        yield Fault(
            f"{where}monotone_constraints_method",
            f"does nothing without {MONOTONE}",
            f"declare {MONOTONE}, or leave it out",
        )


def _monotone_faults(
    federation: Federation, training: BoosterTraining, label: Label | None
) -> Iterator[Fault]:
    constraints = training.parameters.get(MONOTONE)
    if constraints is None:
        return
    where = f"training.parameters.{MONOTONE}"
    if not isinstance(constraints, Mapping) or not constraints:
        yield Fault(
            where, "is not a mapping of features to directions", "for example {bank.income: 1}"
        )
        return
    if label is not None and label.task == "multiclass":
        yield Fault(where, "has no meaning with a score per class", "leave it out")
    if label is not None and objective_of(training, label.task) in _LEAF_RENEWING:
        yield Fault(
            where,
            f"is ignored by objective {training.objective}, which sets leaves after growing a tree",
            "declare another objective, or leave it out",
        )
    features = {
        f"{party}.{name}": feature
        for party, spec in federation.parties.items()
        for name, feature in spec.features.items()
    }
    for name, direction in constraints.items():
        place = f"{where}.{name}"
        feature = features.get(str(name))
        if feature is None:
            yield Fault(place, "names no feature", "write party.feature, for example bank.income")
        elif feature.type == "nominal":
            yield Fault(place, "is nominal, and has no order", "declare an order (ordinal)")
        if type(direction) is not int or direction not in (-1, 0, 1):
            yield Fault(place, "is not a direction", "1 rises, -1 falls, 0 is free")


def _search_faults(
    federation: Federation, training: LightGBMTraining | XGBoostTraining
) -> Iterator[Fault]:
    for key in ("early_stopping", "tuning", "denoise"):
        if getattr(training, key) in (None, "none", "auto"):
            continue
        where = f"training.{key}"
        if key != "denoise" and federation.denoising == "joint":
            yield Fault(
                where,
                "needs rows that no tree learnt from, and joint denoising repeats each",
                "declare denoise: none",
            )
        if key == "denoise" and federation.scoring.mode == "desensitised":
            yield Fault(
                where,
                "makes a model for clear rows, but scoring is desensitised",
                "declare scoring: {mode: routed} or {mode: local}, or leave denoise out",
            )


def _xgboost_faults(federation: Federation) -> Iterator[Fault]:
    for place, domain in federation.domains.items():
        if max(-domain.lower, domain.upper) > _XGBOOST_MAX_ABSOLUTE:
            yield Fault(
                place,
                f"exceeds {_XGBOOST_MAX_ABSOLUTE:,}, beyond which XGBoost's 32-bit thresholds are "
                "too coarse",
                "declare a smaller domain, or trainer: lightgbm",
            )
    for name, party in federation.parties.items():
        for feature, declared in party.features.items():
            if any("<" in word for word in (feature, *(declared.categories or ()))):
                yield Fault(
                    f"parties.{name}.features.{feature}",
                    "has < in its name or in a category's, which XGBoost's names may not hold",
                    "rename it in table and file, or declare trainer: lightgbm",
                )


def honest_parties(federation: Federation) -> int:
    """Return the number of parties whose noise counts in a sum: h = n - kappa.

    Args:
        federation: A federation with noisy sums.
    """
    private = sum_privacy_of(federation)
    assert private is not None
    return len(federation.parties) - (private.colluding or 1)


def sum_faults(federation: Federation) -> Iterator[Fault]:
    """Yield faults of ``training.private`` in horizontal learning."""
    private, where = sum_privacy_of(federation), "training.private"
    if private is None:
        return
    if honest_parties(federation) < 1:
        yield Fault(
            f"{where}.colluding",
            f"leaves no honest party among {len(federation.parties)}",
            "declare fewer",
        )
    rate = federation.training.learning_rate
    if rate > _MAX_LEARNING_RATE:
        yield Fault("training.learning_rate",
                    f"is {rate:g}, but private trees take ten steps at once",
                    f"declare at most {_MAX_LEARNING_RATE:g}, or remove it")  # fmt: skip
    if federation.label is not None and federation.label.task == "multiclass":
        yield Fault("label.task", "is multiclass, and private sums learn two classes or a number",
                    "declare training.private: none, or another label")  # fmt: skip


def sum_privacy_of(federation: Federation) -> SumPrivacy | None:
    """Return the noise settings of horizontal learning's sums; None for exact sums."""
    training = federation.training
    return training.private if isinstance(training, FederBoostTraining) else None


def dpboost_faults(federation: Federation) -> Iterator[Fault]:
    """Yield declarations that would require reading candidate splits or labels off the data."""
    for place, declared_domain in federation.domains.items():
        if declared_domain.size > _DPBOOST_MAX_VALUES:
            yield Fault(
                place,
                f"has more than {_DPBOOST_MAX_VALUES:,} values, each a candidate split for dpboost",
                "declare a smaller one",
            )
    domain = federation.domain.to_domain()
    for name, party in federation.parties.items():
        if party.role != "label_holder":
            continue
        where = f"parties.{name}"
        if party.label is not None:
            yield from _label_faults(f"{where}.label", party.label)
        for feature, declared in party.features.items():
            place = f"{where}.features.{feature}"
            if declared.missing == "keep":
                yield Fault(
                    f"{place}.missing",
                    "is keep, but dpboost takes no missing numbers",
                    "declare a fill",
                )
            if declared.type != "nominal":
                yield from public_map_faults(place, declared, domain)
            elif not declared.categories:
                yield Fault(
                    f"{place}.categories",
                    "is required for dpboost: candidate splits are not read from the data",
                    "list all its categories; they are public",
                )


def _label_faults(where: str, label: Label) -> Iterator[Fault]:
    if label.task == "multiclass":
        yield Fault(
            f"{where}.task",
            "is multiclass, and dpboost learns two classes or a number",
            "declare trainer: lightgbm, or another label",
        )
    elif label.task == "binary" and not label.classes:
        yield Fault(
            f"{where}.classes",
            "is required for dpboost: classes must not be read from the labels",
            "list both, the positive one last",
        )
    elif label.task == "regression" and label.bounds is None:
        yield Fault(
            f"{where}.bounds",
            "is required for dpboost: public bounds, not read from the labels",
            "for example [0, 100]",
        )
    elif label.bounds is not None and label.bounds[0] >= label.bounds[1]:
        yield Fault(f"{where}.bounds", "the lower bound is not less than the upper bound")
