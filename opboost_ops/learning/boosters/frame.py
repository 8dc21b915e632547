"""Input of every booster: features as numbers, parts of the rows, and how to train on them."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

Trainer = Literal["lightgbm", "xgboost", "dpboost"]

#: Told how far something is: of what, how many are done, and of how many.
Tell = Callable[[str, int, int], None]

#: Cells below which a second thread costs more than it gives, most of all on a busy machine.
_SMALL = 250_000


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


#: Share of the training rows that early stopping judges by.
HELD_BACK = 0.1


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
