"""Stock XGBoost: the second booster, an extra."""

from functools import lru_cache
from typing import Any

import numpy as np

from opboost_ops.errors import ConfigError
from opboost_ops.learning.boosters.frame import Frame, Parameters, Tell, threads_for, unheard
from opboost_ops.learning.boosters.lightgbm_backend import rounds_of
from opboost_ops.learning.boosters.parts import HELD_BACK, held_back
from opboost_ops.learning.boosters.xgboost_json import JsonModel

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
_OWN_BINS = 256

#: XGBoost takes 32-bit floats and refuses infinite ones; twice this is still finite.
_FARTHEST = 1e38


class XGBoost:
    """XGBoost behind the protocol."""

    name = "XGBoost"
    file = "model.json"
    forms: tuple[str, ...] = ("json",)

    def require(self) -> None:
        """Make sure that the extra is installed.

        Raises:
            ConfigError: It is not.
        """
        _xgboost()

    def version(self) -> str:
        """Of the library."""
        return str(_xgboost().__version__)

    def parse(self, text: str) -> JsonModel:
        """Read a JSON model."""
        return JsonModel.parse(text)

    def train(
        self, frame: Frame, label: np.ndarray, parameters: Parameters, tell: Tell = unheard
    ) -> str:
        """See `Backend.train`: with a bin for each rank."""
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
        # One number for all columns: with as many bins as ranks none of them shares one.
        ranked = [frame.names.index(name) for name in frame.ranked]
        highest = np.fmax.reduce(frame.matrix[:, ranked], axis=None, initial=0.0)
        settings["max_bin"] = max(int(highest) + 2, _OWN_BINS)
        if parameters.penalty is not None:
            settings["lambda"] = parameters.penalty
        if parameters.task == "multiclass":
            settings["num_class"] = parameters.classes
        directions = [parameters.monotone.get(name, 0) for name in frame.names]
        if any(directions):
            settings["monotone_constraints"] = tuple(directions)
        if settings["objective"] == "reg:quantileerror":
            settings.setdefault("quantile_alpha", 0.5)
        stop, told = parameters.stop, [_after_each(tell, parameters)]
        if stop is None:
            data = _matrix(frame, label, threads)
            booster = xgboost.train(
                settings, data, num_boost_round=parameters.trees, callbacks=told
            )
        else:
            judged = held_back(label, HELD_BACK, parameters.seed, "early stopping")
            data = _matrix(frame.rows(~judged), label[~judged], threads)
            others = _matrix(frame.rows(judged), label[judged], threads)
            booster = xgboost.train(
                settings,
                data,
                num_boost_round=parameters.trees,
                evals=[(others, "held_back")],
                early_stopping_rounds=stop.rounds,
                verbose_eval=False,
                callbacks=told,
            )
            booster = booster[: booster.best_iteration + 1]
        return JsonModel.parse(booster.save_raw("json").decode()).text()

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict as stock XGBoost does: 32-bit numbers, given as float64."""
        booster = _booster(text, threads_for(matrix.size))
        found = booster.inplace_predict(_narrow(matrix), validate_features=False)
        return np.asarray(found, dtype=np.float64)

    def explained(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """XGBoost's own SHAP values (TreeSHAP), and the expected score last."""
        features = matrix.shape[1]
        threads = threads_for(matrix.size * _booster(text, 1).num_boosted_rounds())
        booster = _booster(text, threads)
        data = _xgboost().DMatrix(_narrow(matrix), nthread=threads)
        found = booster.predict(data, pred_contribs=True, validate_features=False)
        parts = np.asarray(found, dtype=np.float64)
        return parts.reshape(len(matrix), -1, features + 1)

    def gains(self, text: str) -> np.ndarray:
        """Sums of gains, float64, shape (features,)."""
        booster = _booster(text, 1)
        found = booster.get_score(importance_type="total_gain")
        return np.array([found.get(name, 0.0) for name in booster.feature_names or ()])

    def export(self, text: str, form: str) -> str:  # noqa: ARG002
        """``json``, XGBoost's own file, is the only form."""
        return text


def _after_each(tell: Tell, parameters: Parameters) -> Any:
    """What XGBoost calls after each boosting round."""
    what = rounds_of(parameters)

    class Told(_xgboost().callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, _model: Any, epoch: int, _evals: Any) -> bool:
            tell(what, epoch + 1, parameters.trees)
            return False

    return Told()


def _matrix(frame: Frame, label: np.ndarray, threads: int) -> Any:
    return _xgboost().DMatrix(
        _narrow(frame.matrix),
        label=label,
        weight=frame.weight,
        feature_names=list(frame.names),
        feature_types=["c" if name in frame.categorical else "float" for name in frame.names],
        enable_categorical=True,
        nthread=threads,
    )


def _narrow(matrix: np.ndarray) -> np.ndarray:
    clipped = np.clip(matrix, -_FARTHEST, _FARTHEST)
    return np.asarray(clipped, dtype=np.float32, order="C")


@lru_cache(maxsize=4)
def _booster(text: str, threads: int) -> Any:
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
