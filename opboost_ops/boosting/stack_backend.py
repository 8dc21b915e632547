"""A stack behind the protocol of models: what reads and asks one, as it would any other model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from opboost_ops.boosting import stack_text
from opboost_ops.boosting.lightgbm_backend import LightGBM
from opboost_ops.boosting.lightgbm_text import TextModel
from opboost_ops.errors import ConfigError

_LIGHTGBM = LightGBM()


@dataclass(frozen=True)
class StackModel:
    """A stack as a model of trees: its splits are those of its plain part.

    The other parts know a released value by its rank among the channel's outputs, all of which are
    public. So they need no split values, and nobody is asked for any.

    Attributes:
        stack: Its text.
        plain: Its plain part, read.
    """

    stack: str
    plain: TextModel

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names by feature index."""
        return self.plain.feature_names

    def text(self) -> str:
        """The stack as one text."""
        return stack_text.with_plain(self.stack, self.plain.text())

    def numeric_splits(self) -> dict[str, list[float]]:
        """Of the plain part, see `Model.numeric_splits`."""
        return self.plain.numeric_splits()

    def split_counts(self) -> dict[str, int]:
        """Of the plain part, see `Model.split_counts`."""
        return self.plain.split_counts()

    def rank_below(self, threshold: float) -> int:
        """See `Model.rank_below`."""
        return self.plain.rank_below(threshold)

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Of the plain part, see `Model.integer_comparisons`."""
        return self.plain.integer_comparisons()

    def replace_thresholds(
        self, feature: str, new: Mapping[float, float], info: tuple[float, float]
    ) -> "StackModel":
        """In the plain part, see `Model.replace_thresholds`."""
        return StackModel(self.stack, self.plain.replace_thresholds(feature, new, info))


class Stack:
    """A stack of LightGBM models."""

    name = "LightGBM"
    file = stack_text.FILE
    forms: tuple[str, ...] = ()

    def require(self) -> None:
        """LightGBM is no extra: it is there."""

    def version(self) -> str:
        """Of LightGBM."""
        return _LIGHTGBM.version()

    def parse(self, text: str) -> StackModel:
        """Read a stack."""
        return StackModel(text, TextModel.parse(_plain(text)))

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """The mixture's predictions for released rows; a row's are the same among any others."""
        # Its sparse matrices take long to import, and pages and plans only read models.
        from opboost_ops.boosting.denoise.parts import Parts

        return Parts.parse(text).predicted(matrix)

    def explained(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Of the plain part: the mixture is no sum of contributions."""
        return _LIGHTGBM.explained(_plain(text), matrix)

    def gains(self, text: str) -> np.ndarray:
        """Of the plain part."""
        return _LIGHTGBM.gains(_plain(text))

    def export(self, text: str, form: str) -> NoReturn:  # noqa: ARG002
        """No other program's form holds it.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            "This version is a stack of several models: no file of another program holds it.",
            "Score it with `opboost`, or export a version that was trained without denoise: stack.",
        )


def _plain(text: str) -> str:
    return str(stack_text.read(text)["models"]["plain"])
