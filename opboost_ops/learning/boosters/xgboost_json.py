"""XGBoost's JSON model, read and edited as JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opboost_ops.errors import ContractError

_CATEGORICAL = 1
_LEAF = -1


@dataclass(frozen=True)
class JsonModel:
    """A model in XGBoost's own JSON format.

    XGBoost keeps thresholds and leaves as 32-bit floats and goes left where ``value < threshold``.
    A leaf's value stands among the thresholds, so nodes are told apart by their children.

    Attributes:
        data: The whole file.
        feature_names: Names by feature index.
    """

    data: Mapping[str, Any] = field(repr=False)
    feature_names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "JsonModel":
        """Read a model.

        Args:
            text: As XGBoost writes it.

        Raises:
            ContractError: It is no JSON model of trees.
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
        """The model as XGBoost reads it, which knows no escapes of letters beyond ASCII."""
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    def numeric_splits(self) -> dict[str, list[float]]:
        """Distinct thresholds of numeric splits by feature name, sorted; used features only."""
        found: dict[str, set[float]] = {}
        for tree in self._trees():
            for node in _splits(tree):
                if tree["split_type"][node] != _CATEGORICAL:
                    name = self.feature_names[tree["split_indices"][node]]
                    found.setdefault(name, set()).add(float(tree["split_conditions"][node]))
        return {name: sorted(values) for name, values in sorted(found.items())}

    def split_counts(self) -> dict[str, int]:
        """How many splits of all trees, categorical ones included, use each feature."""
        counts = dict.fromkeys(self.feature_names, 0)
        for tree in self._trees():
            for node in _splits(tree):
                counts[self.feature_names[tree["split_indices"][node]]] += 1
        return counts

    def rank_below(self, threshold: float) -> int:
        """The greatest rank below the threshold.

        Method ``hist`` puts its threshold on r + 1 itself, ``exact`` on r + 1/2.
        """
        return math.ceil(threshold) - 1

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Thresholds t whose comparisons ``value <= t`` decide every split on integers.

        An integer is below a threshold if it is at most the half-integer before the next integer:
        4 is not below 4.0, nor at most 3.5.
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
        """Replace features' numeric thresholds.

        Args:
            new: New thresholds by old ones, by feature name.
            ranges: Declared ones, which this format does not tell.

        Raises:
            ContractError: A threshold in use has no new value, or 32 bits cannot hold it.
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
            found = new[feature].get(float(thresholds[node]))
            if found is None:
                raise ContractError(f"A split on {feature} has no value to replace its rank.")
            thresholds[node] = float(found)
        return {**tree, "split_conditions": thresholds}

    def _trees(self) -> list[Mapping[str, Any]]:
        trees: list[Mapping[str, Any]] = self.data["learner"]["gradient_booster"]["model"]["trees"]
        return trees


def _splits(tree: Mapping[str, Any]) -> Iterator[int]:
    return (node for node, left in enumerate(tree["left_children"]) if left != _LEAF)
