"""A version as one ONNX file that takes raw columns: their mapping is part of the graph.

Numbers stay 64 bits wide throughout: ``TreeEnsemble`` of ``ai.onnx.ml`` 5 takes thresholds and
leaves of that width. A domain integer is never computed: a threshold between two of them becomes
the greatest raw number that is encoded as the lower one, to the bit (`DomainMap.highest`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opboost_ops.boosting.decisions import by_cost
from opboost_ops.boosting.extras import require_extra
from opboost_ops.config.feature import PlainFill
from opboost_ops.config.federation import Federation
from opboost_ops.domain import DomainMap
from opboost_ops.errors import ConfigError
from opboost_ops.models.raw_columns import RawColumn, raw_columns

_ML = "ai.onnx.ml"

#: How a node compares, in the numbers of the standard.
_AT_MOST, _MEMBER = 0, 6

_NOTE = (
    "An input for each raw column, with a value a row: numbers as doubles, NaN where missing, dates"
    " in their declared unit since 1970; categories as texts, empty where missing. The score is NaN"
    " where OpBoost refuses the row: no value where one is needed, an infinite one, an undeclared"
    " category. The file has thresholds and categories of the label holder, and other parties'"
    " split values."
)


class _Graph:
    """Nodes under construction; each result has a name of its own unless one is given."""

    def __init__(self) -> None:
        require_extra("onnx", "onnx", "The format onnx was asked for", "onnx")
        from onnx import helper, numpy_helper

        self.make, self._tensor = helper, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, values: Any, kind: Any = np.float64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.tensor(values, kind, name))
        return name

    def tensor(self, values: Any, kind: Any = np.float64, name: str = "") -> Any:
        return self._tensor(np.asarray(values, kind), name)

    def add(self, operator: str, *of: str, name: str = "", domain: str = "", **how: Any) -> str:
        name = name or f"{operator}_{len(self.nodes)}"
        node = self.make.make_node(operator, list(of), [name], name=name, domain=domain, **how)
        self.nodes.append(node)
        return name

    def double(self, of: str) -> str:
        return self.add("Cast", of, to=self.make.np_dtype_to_tensor_dtype(np.dtype("float64")))

    def where_missing(self, of: str, value: float) -> str:
        return self.add("Where", self.add("IsNaN", of), self.constant(value), of)

    def take(self, name: str, kind: Any, words: str) -> str:
        """An input, as a column of its own, shape (n, 1)."""
        self.inputs.append(self._typed(name, kind, words))
        return self.add("Reshape", name, self.constant([-1, 1], np.int64))

    def give(self, name: str, kind: Any, of: str, at: int, words: str) -> None:
        """A column of a matrix as an output, shape (n,)."""
        self.add("Gather", of, self.constant(at, np.int64), name=name, axis=1)
        self.outputs.append(self._typed(name, kind, words))

    def _typed(self, name: str, kind: Any, words: str) -> Any:
        number = self.make.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self.make.make_tensor_value_info(name, number, ["rows"], words)


def onnx_model(federation: Federation, files: Mapping[str, bytes], dumped: str) -> bytes:
    """The file: inputs named ``party.feature``, outputs as in a file of scores in mode ``local``.

    Args:
        federation: As the version was trained.
        files: The version's files.
        dumped: Its model as LightGBM's JSON.

    Raises:
        ConfigError: The extra is not installed, or the model's objective is not known here.
    """
    graph, facts, model = _Graph(), json.loads(files["columns.json"]), json.loads(dumped)
    columns = raw_columns(federation, facts)
    matrix, refused = _matrix(graph, federation, columns)
    raw = graph.add(
        "TreeEnsemble",
        matrix,
        domain=_ML,
        n_targets=model["num_tree_per_iteration"],
        aggregate_function=1,
        **_trees(graph, model, [column.mapping for column in columns]),
    )
    link = _link(graph, graph.add("Add", raw, refused), str(model["objective"]))
    _outputs(graph, federation, facts, link)
    make = graph.make
    made = make.make_model(
        make.make_graph(graph.nodes, "model", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[make.make_opsetid("", 18), make.make_opsetid(_ML, 5)],
        ir_version=9,
        producer_name="opboost-ops",
        doc_string=_NOTE,
    )
    version = json.loads(files["card.json"])["run"]
    make.set_model_props(made, {"federation": federation.name, "version": version})
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def _matrix(graph: _Graph, federation: Federation, columns: Sequence[RawColumn]) -> tuple[str, str]:
    """The model's columns, of its raw ones; and 0 for each row, or NaN where it is refused."""
    whole: dict[str, tuple[str, str]] = {}
    checked, made = [], []
    for column in columns:
        if column.source not in whole:
            given, gap = _input(graph, column)
            whole[column.source] = given, gap
            lacking = (
                column.made not in ("number", "code") and federation.alignment.overlap == "left"
            )
            may = lacking or column.declared.missing == "keep" or column.made == "code"
            checked.append(graph.where_missing(given, 0.0) if may else given)
        given, gap = whole[column.source]
        if column.made == "missing":
            given = gap
        elif column.made == "bit":
            given = graph.double(graph.add("Equal", given, graph.constant(column.bit)))
        made.append(given)
    # 0 times NaN, and 0 times infinity, is NaN.
    nothing = graph.add("Mul", graph.add("Concat", *checked, axis=1), graph.constant(0.0))
    over = graph.constant([1], np.int64)
    return graph.add("Concat", *made, axis=1), graph.add("ReduceSum", nothing, over, keepdims=1)


def _input(graph: _Graph, column: RawColumn) -> tuple[str, str]:
    """A raw column as numbers with its fill, and 1 where it was missing."""
    feature = column.declared
    fill = feature.missing.fill if isinstance(feature.missing, PlainFill) else None
    if feature.type == "numeric":
        words = f"a number of {feature.unit} since 1970" if feature.unit else "a number"
        given = graph.take(column.source, np.float64, words)
        gap = graph.double(graph.add("IsNaN", given))
        return given if fill is None else graph.where_missing(given, float(fill)), gap
    text = graph.take(column.source, np.object_, "a category; empty where missing")
    known, default = _codes(column)
    empty = math.nan if feature.missing == "keep" else math.inf
    if fill is not None:
        empty = known.get(str(fill), default)
    return _looked_up(graph, text, {**known, "": empty}, default), _looked_up(
        graph, text, {"": 1.0}, 0.0
    )


def _codes(column: RawColumn) -> tuple[dict[str, float], float]:
    """The number of each raw category, and that of any other; infinity for one that is refused."""
    feature = column.declared
    declared = feature.categories or ()
    known = declared if column.categories is None else column.categories
    order = {category: float(place) for place, category in enumerate(known)}
    absent = math.inf if column.categories is None else math.nan
    numbers = {name: order.get(name, absent) for name in (*declared, *known)}
    numbers |= {raw: order.get(to, absent) for raw, to in feature.mapping.items()}
    if feature.rest is not None:
        return numbers, order.get(feature.rest, absent)
    return numbers, math.inf if declared else math.nan


def _looked_up(graph: _Graph, of: str, known: Mapping[str, float], default: float) -> str:
    return graph.add(
        "LabelEncoder",
        of,
        domain=_ML,
        keys_tensor=graph.tensor(list(known), np.object_),
        values_tensor=graph.tensor(list(known.values())),
        default_tensor=graph.tensor([default]),
    )


def _trees(
    graph: _Graph, model: Mapping[str, Any], mappings: Sequence[DomainMap | None]
) -> dict[str, Any]:
    """The attributes of ``TreeEnsemble``."""
    targets = model["num_tree_per_iteration"]
    nodes: list[tuple[int, ...]] = []
    splits: list[float] = []
    members: list[float] = []
    leaves: list[tuple[int, float]] = []
    roots = []
    cuts: dict[tuple[int, float], float] = {}

    def cut(feature: int, threshold: float) -> float:
        if (mapping := mappings[feature]) is None:
            return threshold
        key = feature, threshold
        if key not in cuts:
            cuts[key] = _raw_threshold(mapping, threshold)
        return cuts[key]

    def leaf(target: int, value: float) -> tuple[int, int]:
        leaves.append((target, value))
        return len(leaves) - 1, 1

    def place(node: Mapping[str, Any], target: int) -> tuple[int, int]:
        if "leaf_value" in node:
            return leaf(target, node["leaf_value"])
        at, feature = len(nodes), node["split_feature"]
        nodes.append(())
        if node["decision_type"] == "==":
            codes = [float(code) for code in str(node["threshold"]).split("||")]
            members.extend((*codes, math.nan))
            kind, left = _MEMBER, False
            splits.append(0.0)
        else:
            threshold = float(node["threshold"])
            kind, left = _AT_MOST, threshold >= 0
            splits.append(cut(feature, threshold))
            if node["missing_type"] == "NaN":
                left = node["default_left"]
        sides = (place(node[f"{side}_child"], target) for side in ("left", "right"))
        nodes[at] = feature, kind, int(left), *(number for side in sides for number in side)
        return at, 0

    for number, tree in enumerate(model["tree_info"]):
        root, target = tree["tree_structure"], number % targets
        roots.append(len(nodes))
        if "leaf_value" in root:
            # A root is a node: this one has the same leaf on both sides.
            splits.append(0.0)
            sides = (*leaf(target, root["leaf_value"]), *leaf(target, root["leaf_value"]))
            nodes.append((0, _AT_MOST, 0, *sides))
        else:
            place(root, target)
    features, kinds, lefts, true, true_leaf, false, false_leaf = zip(*nodes, strict=True)
    more = {"membership_values": graph.tensor(members)} if members else {}
    return {
        "tree_roots": roots,
        "nodes_featureids": features,
        "nodes_modes": graph.tensor(kinds, np.uint8),
        "nodes_splits": graph.tensor(splits),
        "nodes_missing_value_tracks_true": lefts,
        "nodes_truenodeids": true,
        "nodes_trueleafs": true_leaf,
        "nodes_falsenodeids": false,
        "nodes_falseleafs": false_leaf,
        "leaf_targetids": [target for target, _ in leaves],
        "leaf_weights": graph.tensor([value for _, value in leaves]),
        **more,
    }


def _raw_threshold(mapping: DomainMap, threshold: float) -> float:
    """The greatest raw number whose integer is at most a threshold."""
    lowest, highest = mapping.encode(np.array(mapping.bounds))
    if threshold < lowest:
        return -math.inf
    return math.inf if threshold >= highest else mapping.highest(math.floor(threshold))


def _link(graph: _Graph, raw: str, objective: str) -> str:
    """Predictions of raw scores, as LightGBM makes them."""
    name, _, rest = objective.partition(" ")
    if name == "binary":
        slope = dict(part.split(":") for part in rest.split()).get("sigmoid", "1")
        return graph.add("Sigmoid", graph.add("Mul", raw, graph.constant(float(slope))))
    if name == "multiclass":
        return graph.add("Softmax", raw, axis=1)
    if name in ("poisson", "tweedie"):
        return graph.add("Exp", raw)
    if name in ("regression", "regression_l1", "huber", "quantile") and "sqrt" not in rest:
        return raw
    raise ConfigError(f"A model of the objective {objective} cannot be exported as ONNX.")


def _outputs(graph: _Graph, federation: Federation, facts: Mapping[str, Any], found: str) -> None:
    classes = facts["classes"]
    if not classes:
        graph.give("score", np.float64, found, 0, "the number")
        return
    kind = np.int64 if isinstance(classes[0], int) else np.object_
    if facts["task"] == "binary":
        rule = federation.scoring.threshold
        cost = None if rule is None else rule.cost_ratio
        threshold = 0.5 if cost is None else by_cost(cost)["value"]
        chosen = graph.add("Greater", found, graph.constant(threshold))
        chosen = graph.add(
            "Cast", chosen, to=graph.make.np_dtype_to_tensor_dtype(np.dtype("int64"))
        )
        graph.give("score", np.float64, found, 0, f"the probability of {classes[1]}")
        found = graph.add("Concat", graph.add("Sub", graph.constant(1.0), found), found, axis=1)
    else:
        over = graph.constant([1], np.int64)
        chosen = graph.add("ArgMax", found, axis=1)
        most = graph.add("ReduceMax", found, over)
        graph.give("score", np.float64, most, 0, "the likeliest class's probability")
    names = graph.add("Gather", graph.constant(classes, kind), chosen, axis=0)
    graph.give("class", kind, names, 0, "the class")
    for place, name in enumerate(classes):
        graph.give(f"probability_{name}", np.float64, found, place, "uncalibrated")
