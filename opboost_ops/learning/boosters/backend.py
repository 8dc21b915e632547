"""The protocol behind which every booster sits. Nothing outside `boosters` knows which one it is.

LightGBM goes left where ``value <= threshold``, XGBoost where ``value < threshold``. The models of
both say of themselves what that means for ranks and for integers, so nobody else has to know.
"""

from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np

from opboost_ops.learning.boosters.frame import Frame, Parameters, Tell, unheard


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
