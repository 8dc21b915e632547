"""Stock LightGBM: the default booster."""

import ctypes
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opboost_ops.errors import ConfigError
from opboost_ops.learning.boosters.frame import (
    HELD_BACK,
    Frame,
    Parameters,
    Tell,
    held_back,
    threads_for,
    unheard,
)
from opboost_ops.learning.boosters.lightgbm_text import TextModel

if TYPE_CHECKING:
    import lightgbm

#: By the name in the federation file; l2 goes by LightGBM's first name for it.
_OBJECTIVES = {"l2": "regression", "l1": "regression_l1"}
_BY_TASK = {"binary": "binary", "multiclass": "multiclass", "regression": "l2"}
_OWN_BINS = 255

#: What the model file would tell of the machine that made it.
LOCAL = r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):"


class LightGBM:
    """LightGBM behind the protocol."""

    name = "LightGBM"
    file = "model.txt"
    forms: tuple[str, ...] = ("text", "json", "onnx")

    def require(self) -> None:
        """Make sure that LightGBM loads.

        Raises:
            ConfigError: A system library is missing.
        """
        require_lightgbm()

    def version(self) -> str:
        """Of the library."""
        import lightgbm

        return str(lightgbm.__version__)

    def parse(self, text: str) -> TextModel:
        """Read a text model."""
        return TextModel.parse(text)

    def train(
        self, frame: Frame, label: np.ndarray, parameters: Parameters, tell: Tell = unheard
    ) -> str:
        """See `Backend.train`: with a bin for each rank."""
        booster, best = _trained(frame, label, parameters, tell)
        return stated(booster.model_to_string(num_iteration=best), LOCAL)

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict as stock LightGBM does."""
        threads = threads_for(matrix.size)
        return np.asarray(booster_of(text).predict(matrix, num_threads=threads))

    def explained(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """LightGBM's own SHAP values (TreeSHAP), and the expected score last."""
        features = matrix.shape[1]
        booster = booster_of(text)
        threads = threads_for(matrix.size * booster.num_trees())
        parts = np.asarray(booster.predict(matrix, pred_contrib=True, num_threads=threads))
        return parts.reshape(len(matrix), -1, features + 1)

    def gains(self, text: str) -> np.ndarray:
        """Sums of gains, float64, shape (features,)."""
        return np.asarray(booster_of(text).feature_importance("gain"))

    def export(self, text: str, form: str) -> str:
        """``text``, LightGBM's own file, or what its ``dump_model`` gives, for ``onnx`` too."""
        if form == "text":
            return text
        # Python writes the shortest decimal that reads back as the same float.
        return json.dumps(booster_of(text).dump_model(), allow_nan=False, indent=1)


def stated(text: str, local: str) -> str:
    """A trained model's text, which states where missing values go in every split.

    LightGBM reads a missing value as 0 where no training row had one, and other programs differ.

    Args:
        text: As LightGBM writes it.
        local: Matches the lines that tell of the machines that made it.
    """
    return TextModel.parse(text).without(local).with_missing().text()


def _trained(
    frame: Frame, label: np.ndarray, parameters: Parameters, tell: Tell
) -> tuple["lightgbm.Booster", int | None]:
    """A trained booster, and how many of its rounds count; all when absent."""
    import lightgbm

    settings = settings_of(frame, highest_of(frame.matrix), len(label), parameters)
    columns: dict[str, Any] = {
        "feature_name": list(frame.names),
        "categorical_feature": [frame.names.index(name) for name in frame.categorical],
        "free_raw_data": True,
    }
    stop = parameters.stop
    judged = held_back(label, HELD_BACK, parameters.seed, "early stopping") if stop else None
    learns = frame if judged is None else frame.rows(~judged)
    mine = label if judged is None else label[~judged]
    data = lightgbm.Dataset(
        learns.matrix, label=mine, weight=learns.weight, params=settings, **columns
    )
    valid: list[Any] = []
    callbacks: list[Any] = [after_each(tell, parameters)]
    if stop is not None and judged is not None:
        others = frame.rows(judged)
        valid = [data.create_valid(others.matrix, label[judged], weight=others.weight)]
        callbacks += [lightgbm.early_stopping(stop.rounds, verbose=False)]
    booster = lightgbm.train(
        settings,
        data,
        num_boost_round=parameters.trees,
        valid_sets=valid,
        callbacks=callbacks,
        # Otherwise it is written and read again, to be smaller.
        keep_training_booster=True,
    )
    return booster, booster.best_iteration if stop is not None else None


def require_lightgbm() -> None:
    """Make sure that LightGBM loads.

    Its wheel does not contain the OpenMP runtime, which slim images of Debian lack.

    Raises:
        ConfigError: A system library is missing; it names the package.
    """
    try:
        _load()
    except OSError as error:
        if "libgomp" not in str(error):
            raise ConfigError(f"LightGBM does not load: {error}.", "Install it again.") from None
        raise ConfigError(
            "LightGBM does not load: the system library libgomp.so.1 is missing.",
            "Install it: `apt-get install libgomp1` on Debian and Ubuntu, `dnf install libgomp` on "
            "Fedora and Red Hat.",
        ) from None


def _load() -> None:
    """Load its shared library alone, where it is found: the package imports scikit-learn besides.

    Raises:
        OSError: A system library is missing.
    """
    spec = None if "lightgbm" in sys.modules else importlib.util.find_spec("lightgbm")
    for folder in spec.submodule_search_locations or () if spec else ():
        library = Path(folder) / "lib" / "lib_lightgbm.so"
        if library.is_file():
            ctypes.CDLL(str(library))
            return
    import lightgbm  # noqa: F401


def settings_of(
    frame: Frame, highest: np.ndarray, rows: int, parameters: Parameters
) -> dict[str, Any]:
    """LightGBM's own parameters, with a bin for each rank.

    Args:
        frame: Which columns there are; its rows may be some of them.
        highest: The greatest number of each column, shape (features,).
        rows: How many rows there are in all.
        parameters: How.
    """
    own_bins = int(parameters.own.get("max_bin", _OWN_BINS))
    bins = [
        max(int(high) + 2, 3) if name in frame.ranked else own_bins
        for name, high in zip(frame.names, highest, strict=True)
    ]
    objective = parameters.objective or _BY_TASK[parameters.task]
    settings: dict[str, Any] = {
        # All of them, or a rank might share a bin.
        "bin_construct_sample_cnt": rows,
        **parameters.own,
        "objective": _OBJECTIVES.get(objective, objective),
        "learning_rate": parameters.learning_rate,
        "max_depth": parameters.depth,
        "num_leaves": parameters.own.get("num_leaves", 2**parameters.depth),
        "max_bin_by_feature": bins,
        # Only said in the file: every column has a number of its own.
        "max_bin": parameters.own.get("max_bin", max(bins)),
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        "deterministic": True,
        "force_col_wise": True,
        "seed": parameters.seed,
        "num_threads": parameters.threads or threads_for(rows * len(frame.names)),
        "verbosity": -1,
    }
    if parameters.penalty is not None:
        settings["lambda_l2"] = parameters.penalty
    if parameters.least_leaf is not None:
        settings["min_data_in_leaf"] = parameters.least_leaf
    if parameters.task == "multiclass":
        settings["num_class"] = parameters.classes
    directions = [parameters.monotone.get(name, 0) for name in frame.names]
    if any(directions):
        settings["monotone_constraints"] = directions
    return settings


def highest_of(matrix: np.ndarray) -> np.ndarray:
    """The greatest number of each column, shape (features,); 0 where there is none.

    Args:
        matrix: Shape (n, features), NaN where a value is missing.
    """
    return np.asarray(np.fmax.reduce(matrix, axis=0, initial=0.0))


def after_each(tell: Tell, parameters: Parameters) -> Callable[[Any], None]:
    """The callback for LightGBM after each boosting round.

    Args:
        tell: Told how many there are.
        parameters: How it trains.
    """
    what = rounds_of(parameters)

    def told(state: Any) -> None:
        tell(what, state.iteration + 1, parameters.trees)

    return told


def rounds_of(parameters: Parameters) -> str:
    """The unit of a training's progress, in words: where it may end early, there may be fewer.

    Args:
        parameters: How it trains.
    """
    return "trees" if parameters.stop is None else "trees or fewer"


@lru_cache(maxsize=2)
def booster_of(text: str) -> "lightgbm.Booster":
    """The model as stock LightGBM loads it; the last ones stay loaded."""
    require_lightgbm()
    import lightgbm

    return lightgbm.Booster(model_str=text)
