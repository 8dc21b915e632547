"""The protocol of boosters, their parameters and training frames.

LightGBM sends a row left if ``value <= threshold``, XGBoost if ``value < threshold``. `Model` hides
this difference for ranks and integers.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, Self

import numpy as np
import pyarrow as pa

Trainer = Literal["lightgbm", "xgboost", "dpboost"]

#: A progress callback: the unit, the number done, and the total.
Progress = Callable[[str, int, int], None]

#: Below this number of cells, a second thread costs more than it saves.
_SINGLE_THREAD_CELLS = 250_000

#: Share of the training rows that early stopping uses for validation.
STOP_SHARE = 0.1


@dataclass(frozen=True)
class Private:
    """Settings of differentially private training; the defaults are DPBoost's.

    Attributes:
        epsilon: Epsilon of the whole model, for a row that is added or removed.
        trees_per_ensemble: T_e; the trees of an ensemble are trained on disjoint rows.
        regularisation: lambda.
        label_bounds: Public bounds of a numeric label; values outside are clipped.
        random: Splits are drawn at random, and leaves get the whole epsilon.
        delta: Delta of the whole model. Splits are then drawn at random, and leaf sums get Skellam
            noise. None for pure epsilon-differential privacy.
    """

    epsilon: float
    trees_per_ensemble: int = 50
    regularisation: float = 0.1
    label_bounds: tuple[float, float] | None = None
    random: bool = False
    delta: float | None = None


@dataclass(frozen=True)
class Stop:
    """Early stopping.

    Attributes:
        rounds: Boosting stops after this many rounds without a gain on the validation rows.
    """

    rounds: int


@dataclass(frozen=True)
class Parameters:
    """Parameters of a training.

    Attributes:
        task: The task of the label.
        classes: Number of classes; 0 for regression.
        trees: Boosting rounds.
        learning_rate: Shrinkage.
        depth: Greatest depth; a tree has at most 2^depth leaves.
        seed: Seed of the booster.
        threads: Number of threads; 0 selects it by the size of the frame.
        trainer: The booster.
        method: XGBoost's tree method, always ``hist``; part of the digest of a DPBoost training.
        penalty: Penalty on squared leaf values (lambda); None for the booster's default.
        private: Settings of DPBoost.
        least_leaf: Least rows per leaf; None for LightGBM's default of 20.
        objective: The objective; empty for the default of the task.
        own: Further parameters, by the booster's names.
        monotone: Monotone constraint by feature: 1 increasing, -1 decreasing.
        stop: Early stopping; None for none.
    """

    task: Literal["binary", "multiclass", "regression"]
    classes: int
    trees: int
    learning_rate: float
    depth: int
    seed: int
    threads: int = 0
    trainer: Trainer = "lightgbm"
    method: Literal["hist"] = "hist"
    penalty: float | None = None
    private: Private | None = None
    least_leaf: int | None = None
    objective: str = ""
    own: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    monotone: Mapping[str, int] = field(default_factory=dict)
    stop: Stop | None = None


@dataclass(frozen=True, eq=False)
class Frame:
    """A matrix of features with their types.

    Attributes:
        names: Full feature names, ``<party>.<feature>``.
        matrix: float64, shape (n, features).
        categorical: The party's own nominal features: codes from 0, NaN for missing or unknown.
        ranked: Other parties' features: dense ranks 1..k, each of which occurs; for DPBoost, codes
            of the whole declared domain.
        thresholds: Declared candidate thresholds by feature, ascending; only for DPBoost.
        categories: Number of declared categories by nominal feature; only for DPBoost.
        weight: Weights of the rows, shape (n,); None for equal weights.
    """

    names: tuple[str, ...]
    matrix: np.ndarray
    categorical: tuple[str, ...]
    ranked: tuple[str, ...]
    thresholds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    categories: Mapping[str, int] = field(default_factory=dict)
    weight: np.ndarray | None = None

    def rows(self, rows: np.ndarray) -> "Frame":
        """Return some of the rows.

        Args:
            rows: Positions or a mask.
        """
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, matrix=np.asfortranarray(self.matrix[rows]), weight=weight)


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows in a table, which may be larger than memory.

    Attributes:
        frame: An empty frame of the features.
        table: Columns of the features in narrow types, of labels and of weights, n rows.
        label: Name of the column with numbers or class indices.
        weight: Name of the column with weights; empty for equal weights.
    """

    frame: Frame
    table: pa.Table
    label: str
    weight: str = ""


def silent(_what: str, _done: int, _of: int) -> None:
    """Ignore progress."""


def threads_for(cells: int) -> int:
    """Return the number of threads for a matrix; 0 for all.

    Args:
        cells: Rows times columns; for SHAP values also times trees.
    """
    return 1 if cells < _SINGLE_THREAD_CELLS else 0


def folds(label: np.ndarray, count: int, seed: int, what: str) -> np.ndarray:
    """Return the fold of each row; folds have similar sizes and label distributions.

    Args:
        label: Numbers or class indices, shape (n,).
        count: Number of folds.
        seed: A seed, which need not be secret.
        what: Purpose of the folds; each purpose has different ones.

    Returns:
        Numbers from 0, shape (n,).
    """
    place = np.empty(len(label), dtype=np.int64)
    place[_shuffled_order(label, seed, what)] = np.arange(len(label)) % count
    return place


def stopping_rows(label: np.ndarray, share: float, seed: int, what: str) -> np.ndarray:
    """Return a mask of a given share of rows, with a similar label distribution.

    Args:
        label: Numbers or class indices, shape (n,).
        share: Share of all rows.
        seed: A seed, which need not be secret.
        what: Purpose of the mask; each purpose has a different one.

    Returns:
        Booleans, shape (n,). With two rows or more, at least one is True and one is False.
    """
    steps = np.floor(np.arange(len(label) + 1) * share)
    inside = np.empty(len(label), dtype=bool)
    inside[_shuffled_order(label, seed, what)] = np.diff(steps) > 0
    if len(label) > 1 and not inside.any():
        inside[_shuffled_order(label, seed, what)[-1]] = True
    return inside


class Model(Protocol):
    """The trees of a model file, read and edited without the booster's library."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The feature names, by index."""
        ...

    def text(self) -> str:
        """Return the model in its library's format."""
        ...

    def numeric_splits(self) -> dict[str, list[float]]:
        """Return the distinct thresholds of numeric splits by used feature, sorted."""
        ...

    def split_counts(self) -> dict[str, int]:
        """Return the number of splits on each feature, including categorical ones."""
        ...

    def rank_below(self, threshold: float) -> int:
        """Return the greatest dense rank that a threshold sends left."""
        ...

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Return thresholds t such that ``value <= t`` decides every split on integers.

        They are sorted, by feature, and only valid for features with integer values.
        """
        ...

    def replace_thresholds(
        self, new: Mapping[str, Mapping[float, float]], ranges: Mapping[str, tuple[float, float]]
    ) -> Self:
        """Replace numeric thresholds of features, and their ranges in the file.

        Args:
            new: New thresholds by feature and old threshold.
            ranges: Declared ranges of these features, for formats that contain ranges.

        Raises:
            ContractError: A threshold has no new value, or the format cannot represent it.
        """
        ...


class ModelFormat(Protocol):
    """A format of model files, and predictions from them.

    Attributes:
        name: Name for display.
        file: Name of the model file in a version's folder.
        forms: Export formats; the first is the model file itself.
    """

    name: str
    file: str
    forms: tuple[str, ...]

    def require(self) -> None:
        """Raise ConfigError if the library is not installed."""
        ...

    def version(self) -> str:
        """Return the version of the library."""
        ...

    def parse(self, text: str) -> Model:
        """Read a model.

        Raises:
            ContractError: The text is not a model in this format.
        """
        ...

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict; see `trainer.predict`."""
        ...

    def shap_values(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Return SHAP values; see `trainer.shap_values`."""
        ...

    def gains(self, text: str) -> np.ndarray:
        """Return the total gain of each feature's splits, by feature index."""
        ...

    def export(self, text: str, form: str) -> str:
        """Return the model in an export format."""
        ...


class Backend(ModelFormat, Protocol):
    """A booster: a model format that can also be trained."""

    def train(
        self, frame: Frame, label: np.ndarray, parameters: Parameters, progress: Progress = silent
    ) -> str:
        """Train a model; the same input gives the same text.

        Args:
            frame: Training rows, with at least one row and one feature.
            label: Numbers or class indices, shape (n,).
            parameters: Training parameters.
            progress: Called after each boosting round; the model does not depend on it.

        Returns:
            The model's text, without lines that depend on the machine.
        """
        ...


class Engine(Protocol):
    """Trains LightGBM on a table that need not fit into memory as float64."""

    def train(self, rows: Rows, parameters: Parameters, progress: Progress = silent) -> str:
        """Train a model with a bin for each rank.

        Bins of ranks are the same as for a frame in memory. Bins of own numbers come from 200,000
        evenly spaced rows, and are also the same if there are no more rows than that.

        Args:
            rows: Training rows.
            parameters: Parameters for LightGBM, without early stopping.
            progress: Called after each boosting round, if the engine learns of it.

        Returns:
            The model's text, without lines that depend on the machines.
        """
        ...


def _shuffled_order(label: np.ndarray, seed: int, what: str) -> np.ndarray:
    drawn = hashlib.shake_256(f"{what} {seed}".encode()).digest(8 * len(label))
    return np.lexsort((np.frombuffer(drawn, dtype="<u8"), label))
