"""LightGBM's text model, read and edited as text."""

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from opboost_ops.errors import ContractError

_CATEGORICAL = 1

#: Further bits of a split's kind: missing values go left; and what counts as missing, none or NaN.
_LEFT, _MISSING, _NAN = 2, 12, 8

#: How the lines of a tree begin that say where it splits.
_SPLITS = ("split_feature=", "threshold=", "decision_type=")
_EDITED = (*_SPLITS, "feature_infos=")

#: Keys of a tree's lines that say how rows went through it; the last of them comes last.
_ROUTING = ("split_feature", "decision_type", "left_child", "right_child", "leaf_count",
            "internal_count")  # fmt: skip


@dataclass(frozen=True)
class TextModel:
    """A model in LightGBM's own text format, as ``key=value`` lines.

    Attributes:
        lines: All lines, in order.
        feature_names: Names by feature index.
    """

    lines: tuple[str, ...]
    feature_names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "TextModel":
        """Read a model.

        Args:
            text: As LightGBM writes it.

        Raises:
            ContractError: It is no LightGBM text model.
        """
        lines = tuple(text.split("\n"))
        names = next((line for line in lines if line.startswith("feature_names=")), None)
        if not lines[0].startswith("tree") or names is None:
            raise ContractError("This file is not a LightGBM text model.")
        return cls(lines, tuple(names.removeprefix("feature_names=").split()))

    def text(self) -> str:
        """The model as LightGBM reads it."""
        return "\n".join(self.lines)

    def numeric_splits(self) -> dict[str, list[float]]:
        """Distinct thresholds of numeric splits by feature name, sorted; used features only."""
        found: dict[str, set[float]] = {}
        for tree in self._trees():
            for feature, threshold, kind in zip(*tree, strict=True):
                if not int(kind) & _CATEGORICAL:
                    name = self.feature_names[int(feature)]
                    found.setdefault(name, set()).add(float(threshold))
        return {name: sorted(values) for name, values in sorted(found.items())}

    def split_counts(self) -> dict[str, int]:
        """How many splits of all trees, categorical ones included, use each feature."""
        counts = dict.fromkeys(self.feature_names, 0)
        for features, _, _ in self._trees():
            for feature in features:
                counts[self.feature_names[int(feature)]] += 1
        return counts

    def rank_below(self, threshold: float) -> int:
        """The greatest rank at most the threshold: LightGBM puts it just above r + 1/2.

        It is infinite where a split parts missing values from all others: above every rank then.
        """
        return math.floor(threshold) if math.isfinite(threshold) else sys.maxsize

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Thresholds t whose comparisons ``value <= t`` decide every split on integers.

        Half-integers: LightGBM's 4.0 and 4.5 split integers alike, and count once. Infinite ones
        part missing values from all others, and no integers.
        """
        return {
            name: sorted({math.floor(t) + 0.5 for t in thresholds if math.isfinite(t)})
            for name, thresholds in self.numeric_splits().items()
        }

    def replace_thresholds(
        self, feature: str, new: Mapping[float, float], info: tuple[float, float]
    ) -> "TextModel":
        """Replace a feature's numeric thresholds, and what the file says of its range.

        Args:
            feature: Its name.
            new: New thresholds by old ones.
            info: Declared range, instead of the one that was read off the training data.

        Raises:
            ContractError: A threshold in use has no new value.
        """
        index = self.feature_names.index(feature)
        lines = list(self.lines)
        state: dict[str, list[str]] = {}
        for i, line in enumerate(lines):
            if not line.startswith(_EDITED):
                continue
            key, _, value = line.partition("=")
            if key == "feature_infos":
                infos = value.split(" ")
                infos[index] = f"[{info[0]:.17g}:{info[1]:.17g}]"
                lines[i] = f"{key}={' '.join(infos)}"
            else:
                state[key] = value.split()
                if key == "threshold":
                    at = i
                if key == "decision_type" and str(index) in state["split_feature"]:
                    lines[at] = "threshold=" + " ".join(_replaced(state, index, new, feature))
        return replace(self, lines=tuple(lines))

    def with_missing(self, feature: str) -> "TextModel":
        """Let each split of a feature take missing values that no training row had.

        LightGBM would read them as 0. They go where most training rows go; a direction that was
        learnt stays.

        Args:
            feature: Its name.
        """
        index = str(self.feature_names.index(feature))
        lines, tree = list(self.lines), dict[str, tuple[int, list[str]]]()
        for i, line in enumerate(lines):
            key, _, value = line.partition("=")
            if key not in _ROUTING:
                continue
            tree[key] = i, value.split()
            if key == "internal_count":
                at, kinds = tree["decision_type"]
                of = {name: numbers for name, (_, numbers) in tree.items()}
                for node, split in enumerate(of["split_feature"]):
                    kind = int(kinds[node])
                    if split == index and not kind & (_CATEGORICAL | _MISSING):
                        sides = (_rows(of[f"{side}_child"][node], of) for side in ("left", "right"))
                        left, right = sides
                        kinds[node] = str(kind & ~_LEFT | _NAN | (_LEFT if left >= right else 0))
                lines[at] = "decision_type=" + " ".join(kinds)
        return replace(self, lines=tuple(lines))

    def without(self, pattern: str) -> "TextModel":
        """The model without the lines that match a regular expression from their beginning."""
        match = re.compile(pattern).match
        kept = tuple(line for line in self.lines if not match(line))
        return replace(self, lines=kept)

    def _trees(self) -> list[tuple[list[str], list[str], list[str]]]:
        trees: list[tuple[list[str], list[str], list[str]]] = []
        state: dict[str, list[str]] = {}
        for line in self.lines:
            if line.startswith(_SPLITS):
                key, _, value = line.partition("=")
                state[key] = value.split()
                if key == "decision_type":
                    trees.append((state["split_feature"], state["threshold"], state[key]))
        return trees


def _replaced(
    state: Mapping[str, list[str]], index: int, new: Mapping[float, float], feature: str
) -> list[str]:
    thresholds = list(state["threshold"])
    rows = zip(state["split_feature"], state["decision_type"], strict=True)
    for i, (split, kind) in enumerate(rows):
        if int(split) != index or int(kind) & _CATEGORICAL:
            continue
        old = float(thresholds[i])
        if old not in new:
            raise ContractError(f"A split on {feature} has no value to replace its rank.")
        thresholds[i] = repr(float(new[old]))
    return thresholds


def _rows(child: str, tree: Mapping[str, list[str]]) -> int:
    """How many training rows reached a child: a split, or a leaf by its number's complement."""
    at = int(child)
    return int(tree["internal_count"][at] if at >= 0 else tree["leaf_count"][~at])
