"""Trees of horizontal learning in LightGBM's text format, which stock LightGBM loads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opboost_ops.learning.federboost.federboost import Ensemble
from opboost_ops.learning.federboost.histogram import Leaf, Tree
from opboost_ops.learning.federboost.objectives import Objective

_OBJECTIVES = {
    "binary": "binary sigmoid:1",
    "regression": "regression",
    "multiclass": "multiclass num_class:{}",
}

#: LightGBM's decision type of a numeric split without missing values.
_NUMERIC = 2

#: Decision types of numeric splits with missing values (NaN), by their direction.
_KEEPS = {"left": 10, "right": 8}

#: LightGBM's threshold above all numbers: only missing values go right.
_ABOVE_ALL = 1e300


@dataclass(frozen=True)
class ColumnText:
    """A column in the model file.

    Attributes:
        name: Name of the column.
        bounds: Declared range, in the unit of the rows that the model scores.
        threshold: Returns the greatest number at or below a bucket edge, in the same unit.
        keeps: Values may be missing (NaN).
    """

    name: str
    bounds: tuple[float, float]
    threshold: Callable[[int], float]
    keeps: bool = False


def text_of(ensemble: Ensemble, objective: Objective, columns: Sequence[ColumnText]) -> str:
    """Return the model's text.

    Args:
        ensemble: The trained trees.
        objective: The loss.
        columns: The columns, in the order of the ensemble.
    """
    thresholds = [
        [*(column.threshold(edge) for edge in edges), *([_ABOVE_ALL] if column.keeps else [])]
        for column, edges in zip(columns, ensemble.edges, strict=True)
    ]
    lines = [
        "tree",
        "version=v4",
        f"num_class={objective.trees}",
        f"num_tree_per_iteration={objective.trees}",
        "label_index=0",
        f"max_feature_idx={len(columns) - 1}",
        f"objective={_OBJECTIVES[objective.task].format(objective.classes)}",
        f"feature_names={' '.join(column.name for column in columns)}",
        f"feature_infos={' '.join(f'[{c.bounds[0]:.17g}:{c.bounds[1]:.17g}]' for c in columns)}",
        "",
    ]
    number = 0
    for round_number, trees in enumerate(ensemble.trees):
        for tree, initial in zip(trees, ensemble.facts.initial, strict=True):
            # As in LightGBM, the leaves of the first trees include the initial score.
            start = objective.raw(initial) if round_number == 0 else 0.0
            lines += [f"Tree={number}", *_tree(tree, columns, thresholds, start, objective.unit)]
            lines += ["", ""]
            number += 1
    return "\n".join([*lines, "end of trees", "", "parameters:", "end of parameters", ""])


def _tree(
    tree: Tree,
    columns: Sequence[ColumnText],
    thresholds: Sequence[Sequence[float]],
    start: float,
    unit: float,
) -> list[str]:
    inner = sorted(tree.splits)
    ends = [node for node in range(len(tree.leaves)) if node not in tree.splits]
    places = {node: at for at, node in enumerate(inner)} | {
        node: ~at for at, node in enumerate(ends)
    }
    splits = [tree.splits[node] for node in inner]

    def value(leaf: Leaf) -> str:
        return repr(leaf.value * unit + start)

    leaves = [tree.leaves[node] for node in ends]
    nodes = [tree.leaves[node] for node in inner]
    single = not inner
    values: dict[str, list[str]] = {
        "split_feature": [str(split.feature) for split, _, _ in splits],
        "split_gain": [repr(split.gain) for split, _, _ in splits],
        "threshold": [repr(float(thresholds[s.feature][s.bin])) for s, _, _ in splits],
        "decision_type": [
            str(_KEEPS[s.missing] if columns[s.feature].keeps else _NUMERIC) for s, _, _ in splits
        ],
        "left_child": [str(places[left]) for _, left, _ in splits],
        "right_child": [str(places[right]) for _, _, right in splits],
        "leaf_value": [value(leaf) for leaf in leaves],
        "leaf_weight": [] if single else [repr(leaf.hessian) for leaf in leaves],
        "leaf_count": [str(leaf.rows) for leaf in leaves],
        "internal_value": [value(leaf) for leaf in nodes],
        "internal_weight": [repr(leaf.hessian) for leaf in nodes],
        "internal_count": [str(leaf.rows) for leaf in nodes],
    }
    return [
        f"num_leaves={len(leaves)}",
        "num_cat=0",
        *(f"{name}={' '.join(each)}" for name, each in values.items()),
        "is_linear=0",
        "shrinkage=1",
    ]
