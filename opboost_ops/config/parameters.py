"""``training.parameters``: the booster parameters that may be set, and their ranges.

All other parameters either belong to another entry of the file, or would break a property of all
models: that predictions on values equal those on ranks (`linear_tree`), or that equal input gives
equal model text.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.training import TRAINERS

#: Key of monotone constraints, for both boosters.
MONOTONE = "monotone_constraints"

#: Maximum number of leaves of a tree, and of bins of a column.
_MOST = 65_535


@dataclass(frozen=True)
class NumberRange:
    """The allowed range of a number.

    Attributes:
        least: Lower bound.
        most: Upper bound.
        whole: True for integers only.
        above: True to exclude the lower bound.
        below: True to exclude the upper bound.
    """

    least: float
    most: float = math.inf
    whole: bool = False
    above: bool = False
    below: bool = False

    def problem_of(self, value: Any) -> str:
        """Return why a value is not allowed; empty if it is."""
        kind = int if self.whole else (int, float)
        number = isinstance(value, kind) and not isinstance(value, bool)
        if number and math.isfinite(value) and self._contains(value):
            return ""
        return f"is not a {'whole ' if self.whole else ''}number {self.words()}"

    def words(self) -> str:
        """Return the range in words."""
        low = f"above {self.least:g}" if self.above else f"of {self.least:g} or more"
        if math.isinf(self.most):
            return low
        return f"{low}, and {'below' if self.below else 'at most'} {self.most:g}"

    def _contains(self, value: float) -> bool:
        low = value > self.least if self.above else value >= self.least
        high = value < self.most if self.below else value <= self.most
        return low and high


@dataclass(frozen=True)
class Choice:
    """The allowed values of a categorical parameter.

    Attributes:
        of: All of them.
    """

    of: tuple[str | bool, ...]

    def problem_of(self, value: Any) -> str:
        """Return why a value is not allowed; empty if it is."""
        allowed = any(type(value) is type(word) and value == word for word in self.of)
        if allowed:
            return ""
        return f"is not one of {', '.join(str(word).lower() for word in self.of)}"


_SHARE = NumberRange(0, 1, above=True)
_PENALTY = NumberRange(0)
_FLAG = Choice((True, False))
_INSIDE = NumberRange(0, 1, above=True, below=True)

LIGHTGBM: Mapping[str, NumberRange | Choice] = {
    "num_leaves": NumberRange(2, _MOST, whole=True),
    "min_data_in_leaf": NumberRange(1, 10**9, whole=True),
    "min_sum_hessian_in_leaf": _PENALTY,
    "feature_fraction": _SHARE,
    "feature_fraction_bynode": _SHARE,
    "bagging_fraction": _SHARE,
    "bagging_freq": NumberRange(0, 10_000, whole=True),
    "lambda_l1": _PENALTY,
    "lambda_l2": _PENALTY,
    "min_gain_to_split": _PENALTY,
    "max_bin": NumberRange(2, _MOST, whole=True),
    "max_delta_step": _PENALTY,
    "extra_trees": _FLAG,
    "path_smooth": _PENALTY,
    "scale_pos_weight": NumberRange(0, above=True),
    "is_unbalance": _FLAG,
    "monotone_constraints_method": Choice(("basic", "intermediate", "advanced")),
    "cat_smooth": _PENALTY,
    "cat_l2": _PENALTY,
    "max_cat_threshold": NumberRange(1, _MOST, whole=True),
    "alpha": NumberRange(0, above=True),
    "tweedie_variance_power": NumberRange(1, 2, above=True, below=True),
    "poisson_max_delta_step": NumberRange(0, above=True),
}

XGBOOST: Mapping[str, NumberRange | Choice] = {
    "max_leaves": NumberRange(0, _MOST, whole=True),
    "grow_policy": Choice(("depthwise", "lossguide")),
    "min_child_weight": _PENALTY,
    "subsample": _SHARE,
    "colsample_bytree": _SHARE,
    "colsample_bylevel": _SHARE,
    "colsample_bynode": _SHARE,
    "lambda": _PENALTY,
    "alpha": _PENALTY,
    "gamma": _PENALTY,
    "max_delta_step": _PENALTY,
    "scale_pos_weight": NumberRange(0, above=True),
    "huber_slope": NumberRange(0, above=True),
    "quantile_alpha": _INSIDE,
    "tweedie_variance_power": NumberRange(1, 2, above=True, below=True),
}

#: Allowed parameters by trainer; other trainers have none.
ALLOWED: Mapping[str, Mapping[str, NumberRange | Choice]] = {
    "lightgbm": LIGHTGBM,
    "xgboost": XGBOOST,
}

#: Names in other libraries or places, and the entry to use instead.
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("num_iterations", "num_boost_round", "num_trees", "num_rounds", "n_estimators"),
        "training.trees",
    ),
    **dict.fromkeys(("learning_rate", "eta", "shrinkage_rate"), "training.learning_rate"),
    "max_depth": "training.depth",
    **dict.fromkeys(("objective", "loss", "application"), "training.objective"),
    **dict.fromkeys(("metric", "eval_metric"), "training.objective"),
    **dict.fromkeys(
        ("early_stopping_round", "early_stopping_rounds", "n_iter_no_change"),
        "training.early_stopping",
    ),
    **dict.fromkeys(("weight", "sample_weight", "weight_column"), "training.weight_column"),
    "class_weight": "training.weight_column",
    "num_class": "the label's classes",
}

#: Aliases of allowed parameters.
_ALIASES: Mapping[str, Mapping[str, str]] = {
    "lightgbm": {
        "max_leaves": "num_leaves",
        "max_leaf_nodes": "num_leaves",
        "min_child_samples": "min_data_in_leaf",
        "min_samples_leaf": "min_data_in_leaf",
        "min_child_weight": "min_sum_hessian_in_leaf",
        "colsample_bytree": "feature_fraction",
        "colsample_bynode": "feature_fraction_bynode",
        "subsample": "bagging_fraction",
        "subsample_freq": "bagging_freq",
        "reg_alpha": "lambda_l1",
        "reg_lambda": "lambda_l2",
        "lambda": "lambda_l2",
        "min_split_gain": "min_gain_to_split",
        "gamma": "min_gain_to_split",
        "quantile_alpha": "alpha",
        "huber_slope": "alpha",
        "unbalance": "is_unbalance",
        "extra_tree": "extra_trees",
    },
    "xgboost": {
        "num_leaves": "max_leaves",
        "min_sum_hessian_in_leaf": "min_child_weight",
        "feature_fraction": "colsample_bytree",
        "bagging_fraction": "subsample",
        "lambda_l1": "alpha",
        "reg_alpha": "alpha",
        "lambda_l2": "lambda",
        "reg_lambda": "lambda",
        "min_gain_to_split": "gamma",
        "min_split_loss": "gamma",
        "min_data_in_leaf": "min_child_weight",
        "min_child_samples": "min_child_weight",
    },
}

#: Parameters that are never allowed, with reasons, by trainer.
_REFUSED: Mapping[str, Mapping[str, str]] = {
    "lightgbm": {
        "linear_tree": "its leaves depend on numeric values, and ranks are not values",
        "boosting": "trees that are dropped or sampled by gradients are not offered",
    },
    "xgboost": {
        "max_bin": "XGBoost has one number of bins for all columns, and ranks need one each",
        "booster": "only trees have thresholds that can be replaced by ranks",
    },
}


#: Entries that differentially private and horizontal training do not have: reason and remedy.
_DATA_DEPENDENT: Mapping[str, tuple[str, str]] = {
    "parameters": ("no other booster's parameters apply", "remove it"),
    "objective": ("it learns by the label's task", "leave it out"),
    "weight_column": ("its epsilon and its sums assume that all rows count alike", "leave it out"),
    "early_stopping": ("the stopping round would be read off rows", "declare trees"),
    "tuning": (
        "every trial would be a separate release",
        "choose parameters on public tables of the same kind",
    ),
    "denoise": ("it would derive features from labels", "leave it out"),
}


def training_key_fault(trainer: str, name: str, keys: Sequence[str]) -> tuple[str, str]:
    """Return the fault of a key that ``training`` does not have with this trainer.

    Args:
        trainer: The declared trainer.
        name: The key.
        keys: The trainer's keys.

    Returns:
        Problem and suggestion.
    """
    alias = _ALIASES.get(trainer, {}).get(name, name)
    others = [of for of, model in TRAINERS.items() if name in model.model_fields]
    if others:
        problem, remedy = f"is not for {trainer}, but for {', '.join(others)}", "remove it"
        if name in _DATA_DEPENDENT and trainer in ("dpboost", "federboost"):
            why, remedy = _DATA_DEPENDENT[name]
            problem = f"is not for {trainer}: {why}"
    else:
        problem, remedy = "is not a known key", f"choose one of {', '.join(keys)}"
    if alias in ALLOWED.get(trainer, {}) or alias == MONOTONE:
        remedy = f"declare it under training.parameters: {alias}"
    elif name in ELSEWHERE and ELSEWHERE[name].split(".")[1:2] != [name]:
        remedy = f"declare {ELSEWHERE[name]}"
    elif not others and (near := _nearest(name, keys)):
        remedy = f"did you mean {near}?"
    return problem, remedy


#: Display names.
_TITLES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}


def parameter_fault(trainer: str, name: str) -> tuple[str, str]:
    """Return the fault of a name that ``training.parameters`` does not have.

    Args:
        trainer: The declared trainer, which has parameters.
        name: The unknown name.

    Returns:
        Problem and suggestion.
    """
    if (place := ELSEWHERE.get(name)) is not None:
        return "is set by another entry", f"declare {place}"
    if (alias := _ALIASES[trainer].get(name)) is not None:
        return f"is not {_TITLES[trainer]}'s own name", f"write {alias}"
    if (why := _REFUSED[trainer].get(name)) is not None:
        return f"is not offered: {why}", "remove it"
    offered = (*ALLOWED[trainer], MONOTONE)
    if near := _nearest(name, offered):
        return f"is not a parameter of {_TITLES[trainer]} that is offered", f"did you mean {near}?"
    return (
        f"is not a parameter of {_TITLES[trainer]} that is offered",
        f"there are {', '.join(offered)}",
    )


def _nearest(name: str, names: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(name, names, n=1)), "")
