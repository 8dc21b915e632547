"""The protocol behind which every booster sits. Nothing outside `boosters` knows which one it is.

LightGBM goes left where ``value <= threshold``, XGBoost where ``value < threshold``. The models of
both say of themselves what that means for ranks and for integers, so nobody else has to know.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, Self

import numpy as np

Trainer = Literal["lightgbm", "xgboost", "dpboost"]

#: Told how far something is: of what, how many are done, and of how many.
Tell = Callable[[str, int, int], None]

#: Cells below which a second thread costs more than it gives, most of all on a busy machine.
_SMALL = 250_000

#: Share of the training rows that early stopping judges by.
HELD_BACK = 0.1


@dataclass(frozen=True)
class Private:
    """Further settings of differentially private training; the defaults are DPBoost's.

    Attributes:
        epsilon: What the whole model costs, for one row added or removed.
        trees_per_ensemble: T_e; the trees of an ensemble hold different rows.
        regularisation: lambda.
        label_bounds: Public bounds of a number that is learnt; values outside are clipped.
        random: Whether splits are drawn at random and all of epsilon goes to leaves.
        delta: Where the whole model has (epsilon, delta): splits are then drawn at random, and leaf
            sums get Skellam noise. None for epsilon alone.
    """

    epsilon: float
    trees_per_ensemble: int = 50
    regularisation: float = 0.1
    label_bounds: tuple[float, float] | None = None
    random: bool = False
    delta: float | None = None


@dataclass(frozen=True)
class Stop:
    """When boosting ends before all trees are there.

    Attributes:
        rounds: After how many rounds without a gain on the rows held back.
    """

    rounds: int


@dataclass(frozen=True)
class Parameters:
    """How the booster is trained.

    Attributes:
        task: What is learnt.
        classes: How many classes; 0 for regression.
        trees: Boosting rounds.
        learning_rate: Shrinkage.
        depth: Deepest leaf; a tree has at most 2^depth leaves.
        seed: The booster's own seed.
        threads: 0 for as many as the frame is worth.
        trainer: Which booster.
        method: XGBoost's, always ``hist``: the words that name a DPBoost training hold it.
        penalty: On squared leaf values (lambda); None for the booster's own default.
        private: How DPBoost is to train.
        least_leaf: Fewest rows in a leaf; None for LightGBM's own default of 20.
        objective: What is minimised; the task's own when empty.
        own: Further parameters, by the booster's own names.
        monotone: Direction by feature: 1 rises, -1 falls.
        stop: When boosting ends early; None for never.
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
    """Features as the booster takes them.

    Attributes:
        names: Full feature names, ``<party>.<feature>``.
        matrix: float64, shape (n, features).
        categorical: Own nominal features: codes from 0, NaN for missing or unknown.
        ranked: Features of others: dense ranks 1..k, every one of them present; for DPBoost, codes
            of the whole declared domain.
        thresholds: Declared candidate thresholds by feature, rising; only DPBoost needs them.
        categories: How many categories are declared, by nominal feature; likewise.
        weight: How much each row counts, shape (n,); None where all count alike.
    """

    names: tuple[str, ...]
    matrix: np.ndarray
    categorical: tuple[str, ...]
    ranked: tuple[str, ...]
    thresholds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    categories: Mapping[str, int] = field(default_factory=dict)
    weight: np.ndarray | None = None

    def rows(self, rows: np.ndarray) -> "Frame":
        """Some of its rows.

        Args:
            rows: Their positions, or whether each is one.
        """
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, matrix=np.asfortranarray(self.matrix[rows]), weight=weight)


def unheard(_what: str, _done: int, _of: int) -> None:
    """Tell nobody."""


def threads_for(cells: int) -> int:
    """How many threads a matrix is worth; 0 for all.

    Args:
        cells: Its rows times columns; for explanations also times trees.
    """
    return 1 if cells < _SMALL else 0


def folds(label: np.ndarray, count: int, seed: int, what: str) -> np.ndarray:
    """Which part each row is in; parts are of like size, and like in their labels.

    Args:
        label: Numbers or class indices, shape (n,).
        count: How many parts.
        seed: Nothing private hangs on it.
        what: What the parts are for: another purpose cuts otherwise.

    Returns:
        Numbers from 0, shape (n,).
    """
    place = np.empty(len(label), dtype=np.int64)
    place[_order(label, seed, what)] = np.arange(len(label)) % count
    return place


def held_back(label: np.ndarray, share: float, seed: int, what: str) -> np.ndarray:
    """True for each row in a part of a given size, like the rest in its labels.

    Args:
        label: Numbers or class indices, shape (n,).
        share: Of all rows.
        seed: Nothing private hangs on it.
        what: What the part is for.

    Returns:
        Booleans, shape (n,); at least one row is in it and one is not, where there are two.
    """
    steps = np.floor(np.arange(len(label) + 1) * share)
    inside = np.empty(len(label), dtype=bool)
    inside[_order(label, seed, what)] = np.diff(steps) > 0
    if len(label) > 1 and not inside.any():
        inside[_order(label, seed, what)[-1]] = True
    return inside


def _order(label: np.ndarray, seed: int, what: str) -> np.ndarray:
    drawn = hashlib.shake_256(f"{what} {seed}".encode()).digest(8 * len(label))
    return np.lexsort((np.frombuffer(drawn, dtype="<u8"), label))


class Model(Protocol):
    """The trees of a model file, read and edited without their library."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names by feature index."""
        ...

    def text(self) -> str:
        """The model as its library reads it."""
        ...

    def numeric_splits(self) -> dict[str, list[float]]:
        """Distinct thresholds of numeric splits by feature name, sorted; used features only."""
        ...

    def split_counts(self) -> dict[str, int]:
        """How many splits of all trees, categorical ones included, use each feature."""
        ...

    def rank_below(self, threshold: float) -> int:
        """The rank r of a threshold on dense ranks: r goes left and r + 1 goes right."""
        ...

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Thresholds t whose comparisons ``value <= t`` decide every split on integers.

        By feature name, sorted; they mean nothing for features that hold other numbers.
        """
        ...

    def replace_thresholds(
        self, new: Mapping[str, Mapping[float, float]], ranges: Mapping[str, tuple[float, float]]
    ) -> Self:
        """Replace features' numeric thresholds, and what the file says of their ranges.

        Args:
            new: New thresholds by old ones, by feature name.
            ranges: Declared ones of the same features, for a format that tells them.

        Raises:
            ContractError: A threshold in use has no new value, or the format cannot hold it.
        """
        ...


class Reader(Protocol):
    """A reader of models of one kind, which also predicts.

    Attributes:
        name: As people call it.
        file: Name of its model file in a version's folder.
        forms: In which forms a model is exported; its own file is the first.
    """

    name: str
    file: str
    forms: tuple[str, ...]

    def require(self) -> None:
        """Make sure that the library is installed.

        Raises:
            ConfigError: It is not.
        """
        ...

    def version(self) -> str:
        """Of its library."""
        ...

    def parse(self, text: str) -> Model:
        """Read a model.

        Raises:
            ContractError: It is none of this booster's.
        """
        ...

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict, as `trainer.predict` says."""
        ...

    def explained(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """SHAP values, as `trainer.explained` says."""
        ...

    def gains(self, text: str) -> np.ndarray:
        """Sum of the gains of each feature's splits, by feature index."""
        ...

    def export(self, text: str, form: str) -> str:
        """The model in one of its forms."""
        ...


class Backend(Reader, Protocol):
    """One booster."""

    def train(
        self, frame: Frame, label: np.ndarray, parameters: Parameters, tell: Tell = unheard
    ) -> str:
        """Train; the same input gives the same text.

        Args:
            frame: Training rows, of which there are some, with features.
            label: Numbers or class indices, shape (n,).
            parameters: How.
            tell: Told after each boosting round; the text does not hang on it.

        Returns:
            The model's text, without what differs from machine to machine.
        """
        ...
