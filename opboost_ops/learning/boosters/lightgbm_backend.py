"""Stock LightGBM: the default booster.

LightGBM's own `Sequence` reads blocks, but would sample rows for its bins, so that ranks that no
row of the sample has would share one. Here its bins come from a reference that has every rank.
"""

import ctypes
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opboost_ops.errors import ConfigError
from opboost_ops.learning.boosters.backend import (
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


#: What the model file would tell of the machine that made it.
LOCAL = r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):"

#: By the name in the federation file; l2 goes by LightGBM's first name for it.
_OBJECTIVES = {"l2": "regression", "l1": "regression_l1"}
_BY_TASK = {"binary": "binary", "multiclass": "multiclass", "regression": "l2"}
_OWN_BINS = 255

#: Cells from which on a frame is read in blocks: half a gigabyte of numbers, with LightGBM's copy.
LARGE = 2**25
#: Cells of a block.
_BLOCK = 2**22
#: Rows that own columns' bins are made from: LightGBM's own number.
SAMPLE = 200_000


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


@dataclass(frozen=True)
class Blocks:
    """Training rows that are read block by block.

    Attributes:
        read: Gives the frame's rows from one position up to another.
        label: Numbers or class indices, shape (n,).
        weight: How much each row counts, shape (n,); None where all count alike.
    """

    read: Callable[[int, int], Frame]
    label: np.ndarray
    weight: np.ndarray | None = None


class Reference:
    """Rows from which all blocks take their bins: `SAMPLE` of them, evenly spread, and every rank.

    Args:
        first: A row of the frame.
        rows: How many rows there are in all.
    """

    def __init__(self, first: Frame, rows: int) -> None:
        self._frame = first
        self._rows = np.unique(np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(np.int64))
        self._sample: list[np.ndarray] = []
        #: The greatest number of each column, shape (features,).
        self.highest = np.zeros(len(first.names))

    def add(self, begin: int, matrix: np.ndarray) -> None:
        """Look at a block.

        Args:
            begin: The position of its first row.
            matrix: Shape (k, features).
        """
        self.highest = np.fmax(self.highest, highest_of(matrix))
        low, high = np.searchsorted(self._rows, (begin, begin + len(matrix)))
        self._sample.append(matrix[self._rows[low:high] - begin])

    def matrix(self) -> np.ndarray:
        """The rows, once all blocks were added."""
        return with_all_ranks(np.concatenate(self._sample), self._frame, self.highest)


def train(blocks: Blocks, parameters: Parameters, tell: Tell = unheard) -> str:
    """Train on rows that are read block by block, twice.

    Bins of others' ranks are those of a frame in one piece; those of own numbers come from
    `SAMPLE` rows, and are the same where there are no more.

    Args:
        blocks: The rows.
        parameters: How; the booster is LightGBM, with every row to learn from.
        tell: Told after each boosting round.

    Returns:
        The text model; the same input gives the same text.
    """
    import lightgbm

    rows = len(blocks.label)
    first = blocks.read(0, 1)
    size = max(1, _BLOCK // len(first.names))
    reference = Reference(first, rows)
    for begin in range(0, rows, size):
        reference.add(begin, blocks.read(begin, min(begin + size, rows)).matrix)
    settings = settings_of(first, reference.highest, rows, parameters)
    whole = (rows, lambda begin, end: blocks.read(begin, end).matrix)
    data = dataset(first, reference.matrix(), [whole], blocks.label, blocks.weight, settings)
    booster = lightgbm.train(
        settings,
        data,
        num_boost_round=parameters.trees,
        callbacks=[after_each(tell, parameters)],
    )
    return stated(booster.model_to_string(), LOCAL)


def dataset(
    frame: Frame,
    reference: np.ndarray,
    parts: Sequence[tuple[int, Callable[[int, int], np.ndarray]]],
    label: np.ndarray,
    weight: np.ndarray | None,
    settings: Mapping[str, Any],
) -> "lightgbm.Dataset":
    """LightGBM's bins of rows in parts, of which no more than a block is there as numbers.

    Args:
        frame: Which columns there are.
        reference: Rows from which the bins are made.
        parts: Of each, how many rows it has, and how to read some of them.
        label: Of all rows, shape (n,).
        weight: Of all rows, shape (n,), or None.
        settings: LightGBM's own.
    """
    import lightgbm

    class Rows(lightgbm.Sequence):
        batch_size = max(1, _BLOCK // len(frame.names))

        def __init__(self, rows: int, read: Callable[[int, int], np.ndarray]) -> None:
            self._rows, self._read = rows, read

        def __len__(self) -> int:
            return self._rows

        def __getitem__(self, which: Any) -> np.ndarray:
            return np.ascontiguousarray(self._read(which.start, which.stop))

    columns: dict[str, Any] = {"feature_name": list(frame.names), "params": dict(settings)}
    nominal = [frame.names.index(name) for name in frame.categorical]
    bins = lightgbm.Dataset(
        reference, np.zeros(len(reference)), categorical_feature=nominal, **columns
    )
    sequences = [Rows(rows, read) for rows, read in parts]
    return lightgbm.Dataset(sequences, label, weight=weight, reference=bins, **columns)


def narrow(matrix: np.ndarray) -> list[np.ndarray]:
    """Columns of a matrix, each in the smallest type that has all its numbers exactly."""
    return [_narrow_column(column) for column in matrix.T]


def _narrow_column(column: np.ndarray) -> np.ndarray:
    for kind in (np.uint8, np.uint16, np.float32):
        # Numbers that a type does not have are others in it.
        with np.errstate(invalid="ignore", over="ignore"):
            small = column.astype(kind)
        if np.array_equal(small, column, equal_nan=True):
            return small
    return column


def with_all_ranks(sample: np.ndarray, frame: Frame, highest: np.ndarray) -> np.ndarray:
    """Rows, and copies of some of them with the ranks that none of them has.

    Args:
        sample: Some rows, shape (n, features).
        frame: Which columns are ranks.
        highest: The greatest number of each column, shape (features,).
    """
    missing = {
        at: np.setdiff1d(np.arange(1, int(highest[at]) + 1), sample[:, at])
        for at, name in enumerate(frame.names)
        if name in frame.ranked
    }
    count = max(map(len, missing.values()), default=0)
    if not count:
        return sample
    more = sample[np.arange(count) % len(sample)]
    for at, ranks in missing.items():
        more[: len(ranks), at] = ranks
    return np.concatenate([sample, more])
