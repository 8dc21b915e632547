"""Stock XGBoost, an optional booster."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.learning.boosters.backend import (
    STOP_SHARE,
    Frame,
    Parameters,
    Progress,
    silent,
    stopping_rows,
    threads_for,
)
from opboost_ops.learning.boosters.lightgbm_backend import progress_unit

_CATEGORICAL = 1

_LEAF = -1


_OBJECTIVES = {
    "binary": "binary:logistic",
    "multiclass": "multi:softprob",
    "regression": "reg:squarederror",
    "l2": "reg:squarederror",
    "l1": "reg:absoluteerror",
    "huber": "reg:pseudohubererror",
    "quantile": "reg:quantileerror",
    "poisson": "count:poisson",
    "tweedie": "reg:tweedie",
}

_DEFAULT_BINS = 256

#: XGBoost uses 32-bit floats and rejects infinite ones; twice this number is still finite.
_MAX_NUMBER = 1e38


@dataclass(frozen=True)
class JsonModel:
    """A model in XGBoost's JSON format.

    XGBoost stores thresholds and leaf values as 32-bit floats in the same list, so only children
    distinguish splits from leaves. A row goes left if ``value < threshold``.

    Attributes:
        data: The whole file.
        feature_names: Names by feature index.
    """

    data: Mapping[str, Any] = field(repr=False)
    feature_names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "JsonModel":
        """Parse a model.

        Raises:
            ContractError: The text is not an XGBoost JSON model of trees.
        """
        try:
            data = json.loads(text)
            names = tuple(data["learner"]["feature_names"])
            model = cls(data, names)
            model.split_counts()
        except (ValueError, KeyError, TypeError, IndexError):
            raise ContractError("This file is not an XGBoost JSON model.") from None
        return model

    def text(self) -> str:
        """Return the model's JSON, without escapes, which XGBoost does not read."""
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    def numeric_splits(self) -> dict[str, list[float]]:
        """Return the distinct thresholds of numeric splits by used feature, sorted."""
        thresholds: dict[str, set[float]] = {}
        for tree in self._trees():
            for node in _splits(tree):
                if tree["split_type"][node] != _CATEGORICAL:
                    name = self.feature_names[tree["split_indices"][node]]
                    thresholds.setdefault(name, set()).add(float(tree["split_conditions"][node]))
        return {name: sorted(values) for name, values in sorted(thresholds.items())}

    def split_counts(self) -> dict[str, int]:
        """Return the number of splits on each feature, including categorical ones."""
        counts = dict.fromkeys(self.feature_names, 0)
        for tree in self._trees():
            for node in _splits(tree):
                counts[self.feature_names[tree["split_indices"][node]]] += 1
        return counts

    def rank_below(self, threshold: float) -> int:
        """Return the greatest rank below a threshold.

        The tree method ``hist`` sets the threshold to r + 1, ``exact`` to r + 1/2.
        """
        return math.ceil(threshold) - 1

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Return thresholds t such that ``value <= t`` decides every split on integers.

        They are half-integers: an integer is below 4.0 exactly if it is at most 3.5.
        """
        return {
            name: sorted({math.ceil(threshold) - 0.5 for threshold in thresholds})
            for name, thresholds in self.numeric_splits().items()
        }

    def replace_thresholds(
        self,
        new: Mapping[str, Mapping[float, float]],
        ranges: Mapping[str, tuple[float, float]],  # noqa: ARG002
    ) -> "JsonModel":
        """Replace numeric thresholds of features.

        Args:
            new: New thresholds by feature and old threshold.
            ranges: Not used, because this format does not contain ranges.

        Raises:
            ContractError: A threshold has no new value, or 32 bits cannot represent it.
        """
        for feature, values in new.items():
            if any(float(np.float32(value)) != value for value in values.values()):
                raise ContractError(
                    f"A split value of {feature} needs more than XGBoost's 32 bits.",
                    "Declare a smaller domain, or train with LightGBM.",
                )
        trees = [self._replaced(tree, new) for tree in self._trees()]
        learner = self.data["learner"]
        booster = learner["gradient_booster"]
        booster = {**booster, "model": {**booster["model"], "trees": trees}}
        learner = {**learner, "gradient_booster": booster}
        return replace(self, data={**self.data, "learner": learner})

    def _replaced(
        self, tree: Mapping[str, Any], new: Mapping[str, Mapping[float, float]]
    ) -> Mapping[str, Any]:
        thresholds = list(tree["split_conditions"])
        for node in _splits(tree):
            feature = self.feature_names[tree["split_indices"][node]]
            if feature not in new or tree["split_type"][node] == _CATEGORICAL:
                continue
            value = new[feature].get(float(thresholds[node]))
            if value is None:
                raise ContractError(f"A split on {feature} has no value to replace its rank.")
            thresholds[node] = float(value)
        return {**tree, "split_conditions": thresholds}

    def _trees(self) -> list[Mapping[str, Any]]:
        trees: list[Mapping[str, Any]] = self.data["learner"]["gradient_booster"]["model"]["trees"]
        return trees


class XGBoost:
    """XGBoost as a `Backend`."""

    name = "XGBoost"
    file = "model.json"
    forms: tuple[str, ...] = ("json",)

    def require(self) -> None:
        """Raise ConfigError if the extra is not installed."""
        _xgboost()

    def version(self) -> str:
        """Return the version of the library."""
        return str(_xgboost().__version__)

    def parse(self, text: str) -> JsonModel:
        """Read a model in XGBoost's JSON format."""
        return JsonModel.parse(text)

    def train(
        self, frame: Frame, label: np.ndarray, parameters: Parameters, progress: Progress = silent
    ) -> str:
        """Train with one bin per rank; see `Backend.train`."""
        xgboost = _xgboost()
        threads = parameters.threads or threads_for(frame.matrix.size)
        settings: dict[str, Any] = {
            **parameters.own,
            "objective": _OBJECTIVES[parameters.objective or parameters.task],
            "learning_rate": parameters.learning_rate,
            "max_depth": parameters.depth,
            "tree_method": "hist",
            "seed": parameters.seed,
            "nthread": threads,
            "verbosity": 0,
        }
        # XGBoost has one limit for all columns: with as many bins as ranks, no two share a bin.
        ranked = [frame.names.index(name) for name in frame.ranked]
        highest = np.fmax.reduce(frame.matrix[:, ranked], axis=None, initial=0.0)
        settings["max_bin"] = max(int(highest) + 2, _DEFAULT_BINS)
        if parameters.penalty is not None:
            settings["lambda"] = parameters.penalty
        if parameters.task == "multiclass":
            settings["num_class"] = parameters.classes
        directions = [parameters.monotone.get(name, 0) for name in frame.names]
        if any(directions):
            settings["monotone_constraints"] = tuple(directions)
        if settings["objective"] == "reg:quantileerror":
            settings.setdefault("quantile_alpha", 0.5)
        stop, callbacks = parameters.stop, [_progress_callback(progress, parameters)]
        if stop is None:
            data = _dmatrix(frame, label, threads)
            booster = xgboost.train(
                settings, data, num_boost_round=parameters.trees, callbacks=callbacks
            )
        else:
            mask = stopping_rows(label, STOP_SHARE, parameters.seed, "early stopping")
            data = _dmatrix(frame.rows(~mask), label[~mask], threads)
            validation = _dmatrix(frame.rows(mask), label[mask], threads)
            booster = xgboost.train(
                settings,
                data,
                num_boost_round=parameters.trees,
                evals=[(validation, "held_back")],
                early_stopping_rounds=stop.rounds,
                verbose_eval=False,
                callbacks=callbacks,
            )
            booster = booster[: booster.best_iteration + 1]
        return JsonModel.parse(booster.save_raw("json").decode()).text()

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict as stock XGBoost does, in 32 bits, returned as float64."""
        booster = _load_booster(text, threads_for(matrix.size))
        scores = booster.inplace_predict(_to_float32(matrix), validate_features=False)
        return np.asarray(scores, dtype=np.float64)

    def shap_values(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Return XGBoost's SHAP values (TreeSHAP), followed by the expected score."""
        features = matrix.shape[1]
        threads = threads_for(matrix.size * _load_booster(text, 1).num_boosted_rounds())
        booster = _load_booster(text, threads)
        data = _xgboost().DMatrix(_to_float32(matrix), nthread=threads)
        contributions = booster.predict(data, pred_contribs=True, validate_features=False)
        parts = np.asarray(contributions, dtype=np.float64)
        return parts.reshape(len(matrix), -1, features + 1)

    def gains(self, text: str) -> np.ndarray:
        """Return the total gains, float64, shape (features,)."""
        booster = _load_booster(text, 1)
        gains = booster.get_score(importance_type="total_gain")
        return np.array([gains.get(name, 0.0) for name in booster.feature_names or ()])

    def export(self, text: str, form: str) -> str:  # noqa: ARG002
        """Return XGBoost's file, the only format."""
        return text


def _splits(tree: Mapping[str, Any]) -> Iterator[int]:
    return (node for node, left in enumerate(tree["left_children"]) if left != _LEAF)


def _progress_callback(progress: Progress, parameters: Parameters) -> Any:
    """Return an XGBoost callback that reports each boosting round."""
    what = progress_unit(parameters)

    class Report(_xgboost().callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, _model: Any, epoch: int, _evals: Any) -> bool:
            progress(what, epoch + 1, parameters.trees)
            return False

    return Report()


def _dmatrix(frame: Frame, label: np.ndarray, threads: int) -> Any:
    return _xgboost().DMatrix(
        _to_float32(frame.matrix),
        label=label,
        weight=frame.weight,
        feature_names=list(frame.names),
        feature_types=["c" if name in frame.categorical else "float" for name in frame.names],
        enable_categorical=True,
        nthread=threads,
    )


def _to_float32(matrix: np.ndarray) -> np.ndarray:
    clipped = np.clip(matrix, -_MAX_NUMBER, _MAX_NUMBER)
    return np.asarray(clipped, dtype=np.float32, order="C")


@lru_cache(maxsize=4)
def _load_booster(text: str, threads: int) -> Any:
    booster = _xgboost().Booster({"nthread": threads, "verbosity": 0})
    booster.load_model(bytearray(text.encode()))
    return booster


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise ConfigError(
            "The label holder's booster is XGBoost, which is not installed here.",
            "Install the extra: pip install 'opboost-ops[xgboost]'; or train with LightGBM.",
        ) from None
    return xgboost
