"""Models in LightGBM's text format, read and edited as text."""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from opboost_ops.errors import ContractError

_CATEGORICAL = 1

#: Further bits of a decision type: missing values go left; type of missing values (mask, NaN).
_LEFT, _MISSING, _NAN = 2, 12, 8

_INFOS = "feature_infos="

#: Keys of a tree's lines, in the order of the file: its splits, and the routing of training rows.
_SPLITS = ("split_feature", "threshold", "decision_type")
_ROUTING = ("decision_type", "left_child", "right_child", "leaf_count", "internal_count")


@dataclass(frozen=True)
class TextModel:
    """A model in LightGBM's text format, which has ``key=value`` lines.

    Attributes:
        lines: All lines, in order.
        feature_names: Names by feature index.
    """

    lines: tuple[str, ...]
    feature_names: tuple[str, ...]

    @classmethod
    @lru_cache(maxsize=2)
    def parse(cls, text: str) -> "TextModel":
        """Parse a model; the last ones are cached.

        Raises:
            ContractError: The text is not a LightGBM text model.
        """
        lines = tuple(text.split("\n"))
        names = next((line for line in lines if line.startswith("feature_names=")), None)
        if not lines[0].startswith("tree") or names is None:
            raise ContractError("This file is not a LightGBM text model.")
        return cls(lines, tuple(names.removeprefix("feature_names=").split()))

    def text(self) -> str:
        """Return the model's text."""
        return "\n".join(self.lines)

    def numeric_splits(self) -> dict[str, list[float]]:
        """Return the distinct thresholds of numeric splits by used feature, sorted."""
        return {name: [*values] for name, values in self._splits[0].items()}

    def split_counts(self) -> dict[str, int]:
        """Return the number of splits on each feature, including categorical ones."""
        return {**self._splits[1]}

    def rank_below(self, threshold: float) -> int:
        """Return the greatest rank at most a threshold, which LightGBM sets just above r + 1/2.

        An infinite threshold separates missing values from all others and lies above all ranks.
        """
        return math.floor(threshold) if math.isfinite(threshold) else sys.maxsize

    def integer_comparisons(self) -> dict[str, list[float]]:
        """Return thresholds t such that ``value <= t`` decides every split on integers.

        They are half-integers, because LightGBM's 4.0 and 4.5 split integers alike. Infinite
        thresholds are omitted: they only separate missing values from all others.
        """
        return {
            name: sorted({math.floor(t) + 0.5 for t in thresholds if math.isfinite(t)})
            for name, thresholds in self.numeric_splits().items()
        }

    def replace_thresholds(
        self, new: Mapping[str, Mapping[float, float]], ranges: Mapping[str, tuple[float, float]]
    ) -> "TextModel":
        """Replace numeric thresholds of features, and their ranges in the file.

        Args:
            new: New thresholds by feature and old threshold.
            ranges: Declared ranges of these features, which replace those of the training data.

        Raises:
            ContractError: A threshold has no new value.
        """
        places, lines = {name: self.feature_names.index(name) for name in new}, list(self.lines)
        by_index = {str(place): new[name] for name, place in places.items()}
        for (_, at, _), (features, thresholds, kinds) in self._trees(_SPLITS):
            for node, (split, kind) in enumerate(zip(features, kinds, strict=True)):
                if split not in by_index or int(kind) & _CATEGORICAL:
                    continue
                value = by_index[split].get(float(thresholds[node]))
                if value is None:
                    name = self.feature_names[int(split)]
                    raise ContractError(f"A split on {name} has no value to replace its rank.")
                thresholds[node] = repr(float(value))
            lines[at] = "threshold=" + " ".join(thresholds)
        at = next(i for i, line in enumerate(lines) if line.startswith(_INFOS))
        infos = lines[at].removeprefix(_INFOS).split(" ")
        for name, place in places.items():
            infos[place] = f"[{ranges[name][0]:.17g}:{ranges[name][1]:.17g}]"
        lines[at] = _INFOS + " ".join(infos)
        return replace(self, lines=tuple(lines))

    def with_missing_directions(self) -> "TextModel":
        """Let missing values follow most training rows at splits without missing training values.

        LightGBM would read them as 0. A learned direction stays.
        """
        lines = list(self.lines)
        for (at, *_), (kinds, left, right, leaves, inner) in self._trees(_ROUTING):
            # A child is the number of a split, or the complement of a leaf's: -1 is leaf 0.
            rows = [int(count) for count in (*inner, *reversed(leaves))]
            for node, kind in enumerate(map(int, kinds)):
                if not kind & (_CATEGORICAL | _MISSING):
                    most = _LEFT if rows[int(left[node])] >= rows[int(right[node])] else 0
                    kinds[node] = str(kind & ~_LEFT | _NAN | most)
            lines[at] = "decision_type=" + " ".join(kinds)
        return replace(self, lines=tuple(lines))

    def without_lines(self, pattern: str) -> "TextModel":
        """Remove the lines whose beginning matches a regular expression."""
        match = re.compile(pattern).match
        lines = tuple(line for line in self.lines if not match(line))
        return replace(self, lines=lines)

    @cached_property
    def _splits(self) -> tuple[dict[str, list[float]], dict[str, int]]:
        """Numeric splits and split counts, as `numeric_splits` and `split_counts` return them."""
        thresholds: dict[str, set[float]] = {}
        counts = dict.fromkeys(self.feature_names, 0)
        for _, tree in self._trees(_SPLITS):
            for feature, threshold, kind in zip(*tree, strict=True):
                name = self.feature_names[int(feature)]
                counts[name] += 1
                if not int(kind) & _CATEGORICAL:
                    thresholds.setdefault(name, set()).add(float(threshold))
        return {name: sorted(values) for name, values in sorted(thresholds.items())}, counts

    def _trees(self, keys: Sequence[str]) -> Iterator[tuple[list[int], list[list[str]]]]:
        """Yield for each tree the positions of its lines with some keys, and their values."""
        marks = tuple(f"{key}=" for key in keys)
        lines = [(at, line) for at, line in enumerate(self.lines) if line.startswith(marks)]
        for begin in range(0, len(lines), len(keys)):
            tree = lines[begin : begin + len(keys)]
            yield [at for at, _ in tree], [line.partition("=")[2].split() for _, line in tree]
