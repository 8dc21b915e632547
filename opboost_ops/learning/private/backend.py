"""DPBoost as a `Backend`: its models have LightGBM's text format, and stock LightGBM predicts."""

from collections.abc import Sequence
from importlib import metadata

import numpy as np

from opboost_ops.learning.boosters.backend import Frame, Parameters, Progress, silent
from opboost_ops.learning.boosters.lightgbm_backend import LightGBM
from opboost_ops.learning.private import noise
from opboost_ops.learning.private.noise import Memory
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.trainer import fit, label_bounds
from opboost_ops.learning.private.tree import Candidates, Tree

#: LightGBM's decision type of a numeric split without missing values (default left).
_NUMERIC = 2

_CATEGORICAL = 1

#: With labels -1 and 1 and the squared loss, a score is 2 p - 1. A sigmoid of this slope equals
#: (1 + score) / 2 to first order and stays between 0 and 1.
_SIGMOID = 2


def model_text(
    trees: Sequence[Tree],
    candidates: Candidates,
    parameters: Parameters,
    bounds: tuple[float, float],
    initial: float = 0.0,
) -> str:
    """Return the model in LightGBM's text format.

    Args:
        trees: The trees.
        candidates: The candidate splits.
        parameters: Training parameters.
        bounds: Bounds of the label, which scale scores back from [-1, 1].
        initial: The initial score.

    Returns:
        A model that predicts numbers in the label's unit, or probabilities for two classes.
    """
    if parameters.task == "binary":
        logistic = parameters.private is not None and parameters.private.delta is not None
        slope = 1 if logistic else _SIGMOID
        objective, scale, shift = f"binary sigmoid:{slope}", 1.0, initial
    else:
        objective = "regression"
        scale = (bounds[1] - bounds[0]) / 2
        shift = (bounds[0] + bounds[1]) / 2 + initial * scale
    infos = [
        ":".join(map(str, range(count))) if count else f"[{edges[0]:.17g}:{edges[-1]:.17g}]"
        for edges, count in zip(candidates.thresholds, candidates.categories, strict=True)
    ]
    lines = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={len(candidates.names) - 1}",
        f"objective={objective}",
        f"feature_names={' '.join(candidates.names)}",
        f"feature_infos={' '.join(infos)}",
        "",
    ]
    rate = parameters.learning_rate * scale
    for i, tree in enumerate(trees):
        # The leaves of the first tree include the initial score.
        values = np.array(tree.leaves) / LEAF_UNITS * rate + (shift if i == 0 else 0.0)
        lines += _tree(i, tree, values, candidates, parameters.learning_rate)
    lines += [
        "end of trees",
        "",
        "feature_importances:",
        "",
        "parameters:",
        "[boosting: gbdt]",
        f"[objective: {objective.split()[0]}]",
        f"[num_iterations: {parameters.trees}]",
        f"[learning_rate: {parameters.learning_rate!r}]",
        f"[max_depth: {parameters.depth}]",
        "end of parameters",
        "",
        "pandas_categorical:null",
        "",
    ]
    return "\n".join(lines)


class DPBoost(LightGBM):
    """A trainer of our own, whose models LightGBM reads."""

    name = "DPBoost"

    def version(self) -> str:
        """Return the versions of the libraries that draw noise and read models."""
        return f"with OpenDP {metadata.version('opendp')}, for LightGBM {super().version()}"

    def require(self) -> None:
        """Raise ConfigError if OpenDP is not installed or LightGBM does not load."""
        noise.require()
        super().require()

    def train(
        self,
        frame: Frame,
        label: np.ndarray,
        parameters: Parameters,
        progress: Progress = silent,
        memory: Memory | None = None,
    ) -> str:
        """Train with differential privacy; every training draws new noise and is a new release.

        Args:
            frame: Training rows, with declared thresholds and categories.
            label: Numbers or class indices, shape (n,).
            parameters: Training parameters.
            progress: Called after each tree.
            memory: Draws of an interrupted training, which this one resumes.

        Returns:
            The model's text, which is differentially private.
        """
        self.require()
        trained = fit(frame, label, parameters, memory, progress=progress)
        return model_text(
            trained.trees, trained.candidates, parameters, label_bounds(parameters), trained.initial
        )


def _tree(
    number: int, tree: Tree, values: np.ndarray, candidates: Candidates, rate: float
) -> list[str]:
    inner = len(tree.splits)
    thresholds, kinds = [], []
    bounds, words = [0], []
    for split in tree.splits:
        feature, code = candidates.feature[split], int(candidates.high[split])
        if candidates.categories[feature]:
            thresholds.append(str(len(bounds) - 1))
            kinds.append(str(_CATEGORICAL))
            words += [0] * (code // 32) + [1 << code % 32]
            bounds.append(len(words))
        else:
            thresholds.append(repr(float(candidates.thresholds[feature][code])))
            kinds.append(str(_NUMERIC))
    heap = range(inner)
    children = [
        " ".join(str(child if child < inner else inner - 1 - child) for child in below)
        for below in ([2 * i + 1 for i in heap], [2 * i + 2 for i in heap])
    ]
    # Node i of a heap has bit_length(i + 1) - 1 ancestors.
    leaves_below = [2 ** (tree.depth + 1 - (i + 1).bit_length()) for i in heap]
    zeros = " ".join("0" for _ in heap)
    lines = [
        f"Tree={number}",
        f"num_leaves={inner + 1}",
        f"num_cat={len(bounds) - 1}",
        f"split_feature={' '.join(str(candidates.feature[s]) for s in tree.splits)}",
        f"split_gain={zeros}",
        f"threshold={' '.join(thresholds)}",
        f"decision_type={' '.join(kinds)}",
        f"left_child={children[0]}",
        f"right_child={children[1]}",
        f"leaf_value={' '.join(repr(float(v)) for v in values)}",
        f"leaf_weight={' '.join('1' for _ in values)}",
        f"leaf_count={' '.join('1' for _ in values)}",
        f"internal_value={zeros}",
        f"internal_weight={' '.join(map(str, leaves_below))}",
        f"internal_count={' '.join(map(str, leaves_below))}",
    ]
    if words:
        lines += [
            f"cat_boundaries={' '.join(map(str, bounds))}",
            f"cat_threshold={' '.join(map(str, words))}",
        ]
    return [*lines, "is_linear=0", f"shrinkage={rate!r}", "", ""]
