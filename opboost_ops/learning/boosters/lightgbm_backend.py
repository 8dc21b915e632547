"""Stock LightGBM, the default booster.

LightGBM constructs the bins of a large table from a sample of rows, so that ranks missing from the
sample would share a bin. Here bins come from a reference that has every rank.
"""

import ctypes
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opboost_ops.errors import ConfigError
from opboost_ops.learning.boosters.backend import (
    STOP_SHARE,
    Frame,
    Parameters,
    Progress,
    Rows,
    silent,
    stopping_rows,
    threads_for,
)
from opboost_ops.learning.boosters.lightgbm_text import TextModel
from opboost_ops.tables.spill.arrays import release_memory

if TYPE_CHECKING:
    import lightgbm


#: Lines of a model file that depend on the machine.
MACHINE_LINES = r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):"

#: LightGBM's names of objectives that differ from those of the federation file.
_OBJECTIVES = {"l2": "regression", "l1": "regression_l1"}
_BY_TASK = {"binary": "binary", "multiclass": "multiclass", "regression": "l2"}
_DEFAULT_BINS = 255

#: Tables of more cells are not read into a frame: half a gigabyte with LightGBM's copy.
FRAME_CELLS = 2**25
#: Rows from which bins of own columns are constructed, as in LightGBM.
SAMPLE_ROWS = 200_000


class LightGBM:
    """LightGBM as a `Backend`."""

    name = "LightGBM"
    file = "model.txt"
    forms: tuple[str, ...] = ("text", "json", "onnx")

    def require(self) -> None:
        """Raise ConfigError if LightGBM does not load."""
        require_lightgbm()

    def version(self) -> str:
        """Return the version of the library."""
        import lightgbm

        return str(lightgbm.__version__)

    def parse(self, text: str) -> TextModel:
        """Read a model in LightGBM's text format."""
        return TextModel.parse(text)

    def train(
        self, frame: Frame, label: np.ndarray, parameters: Parameters, progress: Progress = silent
    ) -> str:
        """Train with one bin per rank; see `Backend.train`."""
        booster, best = _train_booster(frame, label, parameters, progress)
        return portable_text(booster.model_to_string(num_iteration=best), MACHINE_LINES)

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict as stock LightGBM does."""
        threads = threads_for(matrix.size)
        return np.asarray(load_booster(text).predict(matrix, num_threads=threads))

    def shap_values(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Return LightGBM's SHAP values (TreeSHAP), followed by the expected score."""
        features = matrix.shape[1]
        booster = load_booster(text)
        threads = threads_for(matrix.size * booster.num_trees())
        parts = np.asarray(booster.predict(matrix, pred_contrib=True, num_threads=threads))
        return parts.reshape(len(matrix), -1, features + 1)

    def gains(self, text: str) -> np.ndarray:
        """Return the total gains, float64, shape (features,)."""
        return np.asarray(load_booster(text).feature_importance("gain"))

    def export(self, text: str, form: str) -> str:
        """Return LightGBM's file for ``text``, and otherwise the JSON of ``dump_model``."""
        if form == "text":
            return text
        # Python writes the shortest decimal that reads back as the same float.
        return json.dumps(load_booster(text).dump_model(), allow_nan=False, indent=1)


def portable_text(text: str, local: str) -> str:
    """Return a model's text that predicts alike in all programs and on all machines.

    Every split states the direction of missing values: if no training row had any, LightGBM reads
    them as 0, and other programs differ.

    Args:
        text: LightGBM's text.
        local: A regular expression for lines that depend on the machine.
    """
    return TextModel.parse(text).without_lines(local).with_missing_directions().text()


def require_lightgbm() -> None:
    """Raise ConfigError if LightGBM does not load.

    Its wheel does not contain the OpenMP runtime, which slim images of Debian lack.
    """
    try:
        _load_library()
    except OSError as error:
        if "libgomp" not in str(error):
            raise ConfigError(f"LightGBM does not load: {error}.", "Install it again.") from None
        raise ConfigError(
            "LightGBM does not load: the system library libgomp.so.1 is missing.",
            "Install it: `apt-get install libgomp1` on Debian and Ubuntu, `dnf install libgomp` on "
            "Fedora and Red Hat.",
        ) from None


def lightgbm_settings(
    frame: Frame, highest: np.ndarray, rows: int, parameters: Parameters
) -> dict[str, Any]:
    """Return LightGBM's parameters, with one bin per rank.

    Args:
        frame: Any frame of the training's columns.
        highest: The greatest number in each column, shape (features,).
        rows: Number of training rows.
        parameters: Training parameters.
    """
    own_bins = int(parameters.own.get("max_bin", _DEFAULT_BINS))
    bins = [
        max(int(high) + 2, 3) if name in frame.ranked else own_bins
        for name, high in zip(frame.names, highest, strict=True)
    ]
    objective = parameters.objective or _BY_TASK[parameters.task]
    settings: dict[str, Any] = {
        # Use all rows, or two ranks could share a bin.
        "bin_construct_sample_cnt": rows,
        **parameters.own,
        "objective": _OBJECTIVES.get(objective, objective),
        "learning_rate": parameters.learning_rate,
        "max_depth": parameters.depth,
        "num_leaves": parameters.own.get("num_leaves", 2**parameters.depth),
        "max_bin_by_feature": bins,
        # Only for the file: max_bin_by_feature applies to every column.
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


def column_maxima(matrix: np.ndarray) -> np.ndarray:
    """Return the greatest number in each column, at least 0, shape (features,).

    Args:
        matrix: Shape (n, features), NaN for missing values.
    """
    return np.asarray(np.fmax.reduce(matrix, axis=0, initial=0.0))


def progress_callback(progress: Progress, parameters: Parameters) -> Callable[[Any], None]:
    """Return a LightGBM callback that reports each boosting round.

    Args:
        progress: Called with the number of rounds done.
        parameters: Training parameters.
    """
    what = progress_unit(parameters)

    def report(state: Any) -> None:
        progress(what, state.iteration + 1, parameters.trees)

    return report


def progress_unit(parameters: Parameters) -> str:
    """Return the unit of a training's progress, for display."""
    return "trees" if parameters.stop is None else "trees or fewer"


@lru_cache(maxsize=2)
def load_booster(text: str) -> "lightgbm.Booster":
    """Load a model with stock LightGBM; the last ones are cached."""
    require_lightgbm()
    import lightgbm

    return lightgbm.Booster(model_str=text)


class LocalEngine:
    """Training in this process."""

    def train(self, rows: Rows, parameters: Parameters, progress: Progress = silent) -> str:
        """See `Engine.train`; the same input gives the same text."""
        import lightgbm

        reference, settings = bin_reference(rows, parameters)
        data = dataset(rows, reference, settings).construct()
        release_memory()
        booster = lightgbm.train(
            settings,
            data,
            num_boost_round=parameters.trees,
            callbacks=[progress_callback(progress, parameters)],
            keep_training_booster=True,
        )
        return portable_text(booster.model_to_string(), MACHINE_LINES)


def bin_reference(rows: Rows, parameters: Parameters) -> tuple[pa.Table, dict[str, Any]]:
    """Return the rows from which bins are constructed, and LightGBM's parameters.

    The rows are `SAMPLE_ROWS` evenly spaced ones, then copies of some of them that contain the
    ranks missing from the sample.

    Args:
        rows: All training rows.
        parameters: Parameters for LightGBM.
    """
    frame, count = rows.frame, rows.table.num_rows
    sample = np.unique(np.linspace(0, count - 1, min(count, SAMPLE_ROWS)).astype(np.int64))
    columns = {name: rows.table.column(name).take(sample).to_numpy() for name in frame.names}
    highest = {name: pc.max(rows.table.column(name)).as_py() or 0 for name in frame.ranked}
    missing = {
        name: np.setdiff1d(np.arange(1, int(rank) + 1), columns[name])
        for name, rank in highest.items()
    }
    copied = np.arange(max(map(len, missing.values()), default=0)) % len(sample)
    for name, column in columns.items():
        more, ranks = column[copied], missing.get(name, ())
        more[: len(ranks)] = ranks
        columns[name] = np.concatenate([column, more])
    maxima = np.array([highest.get(name, 0) for name in frame.names])
    return pa.table(columns), lightgbm_settings(frame, maxima, count, parameters)


def dataset(rows: Rows, reference: pa.Table, settings: Mapping[str, Any]) -> "lightgbm.Dataset":
    """Return LightGBM's data set, which reads the table's columns in their own types.

    Args:
        rows: All training rows, or a worker's.
        reference: Rows from which bins are constructed.
        settings: LightGBM's parameters.
    """
    import lightgbm

    names, table = list(rows.frame.names), rows.table
    columns: dict[str, Any] = {"feature_name": names, "params": dict(settings)}
    nominal = [names.index(name) for name in rows.frame.categorical]
    bins = lightgbm.Dataset(
        reference, np.zeros(len(reference)), categorical_feature=nominal, **columns
    )
    weight = table.column(rows.weight) if rows.weight else None
    return lightgbm.Dataset(
        table.select(names), table.column(rows.label), weight=weight, reference=bins, **columns
    )


def narrow(column: np.ndarray) -> np.ndarray:
    """Return a column in the smallest type that represents it exactly, shape (n,)."""
    for kind in (np.uint8, np.uint16, np.float32):
        # Numbers outside the range of the type change, which the comparison detects.
        with np.errstate(invalid="ignore", over="ignore"):
            small = column.astype(kind)
        if np.array_equal(small, column, equal_nan=True):
            return small
    return column


def _train_booster(
    frame: Frame, label: np.ndarray, parameters: Parameters, progress: Progress
) -> tuple["lightgbm.Booster", int | None]:
    """Train a booster; also return the best number of rounds, None without early stopping."""
    import lightgbm

    settings = lightgbm_settings(frame, column_maxima(frame.matrix), len(label), parameters)
    columns: dict[str, Any] = {
        "feature_name": list(frame.names),
        "categorical_feature": [frame.names.index(name) for name in frame.categorical],
        "free_raw_data": True,
    }
    stop = parameters.stop
    judged = stopping_rows(label, STOP_SHARE, parameters.seed, "early stopping") if stop else None
    learns = frame if judged is None else frame.rows(~judged)
    mine = label if judged is None else label[~judged]
    data = lightgbm.Dataset(
        learns.matrix, label=mine, weight=learns.weight, params=settings, **columns
    )
    valid: list[Any] = []
    callbacks: list[Any] = [progress_callback(progress, parameters)]
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
        # Otherwise LightGBM writes and reads the booster again to reduce its size.
        keep_training_booster=True,
    )
    return booster, booster.best_iteration if stop is not None else None


def _load_library() -> None:
    """Load only LightGBM's shared library, since the package also imports scikit-learn.

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
