"""A version as one ONNX file that takes raw columns and maps them itself.

All numbers have 64 bits: ``TreeEnsemble`` of ``ai.onnx.ml`` 5 accepts thresholds and leaves of that
width. Domain integers are not computed. Instead, a threshold between two of them becomes the
greatest raw number that is encoded as the lower one, exact to the bit (`DomainMap.highest`).
"""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from opboost_ops.config.feature import Fill, canonical
from opboost_ops.config.federation import Federation
from opboost_ops.config.resources import require_extra
from opboost_ops.domain import DomainMap
from opboost_ops.errors import ConfigError
from opboost_ops.learning.calibration import highest_score
from opboost_ops.learning.metrics import threshold
from opboost_ops.learning.registry.importance import RawColumn, raw_columns

_ML = "ai.onnx.ml"

#: Comparison modes of nodes, as the standard numbers them.
_AT_MOST, _MEMBER = 0, 6

#: Attributes of nodes, as the standard names them.
_NODE = (
    "nodes_featureids",
    "nodes_modes",
    "nodes_splits",
    "nodes_missing_value_tracks_true",
    "nodes_truenodeids",
    "nodes_trueleafs",
    "nodes_falsenodeids",
    "nodes_falseleafs",
)

_NOTE = (
    "One input per raw column, with one value per row: numbers as doubles, NaN if missing, dates "
    "in their declared unit since 1970; categories as strings without surrounding whitespace, "
    "empty if missing. The score is NaN for rows that OpBoost rejects: a required value is missing "
    "or infinite, or a category is undeclared. The file contains thresholds and categories of the "
    "label holder, and other parties' split values."
)


class _Graph:
    """A graph under construction; results get unique names unless a name is given."""

    def __init__(self) -> None:
        require_extra("onnx", "onnx", "The format onnx was asked for", "onnx")
        from onnx import helper, numpy_helper

        self.make, self._tensor = helper, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def tensor(self, values: Any, kind: Any = np.float64, name: str = "") -> Any:
        return self._tensor(np.asarray(values, kind), name)

    def constant(self, values: Any, kind: Any = np.float64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.tensor(values, kind, name))
        return name

    def add(self, operator: str, *of: str, name: str = "", **how: Any) -> str:
        name = name or f"{operator}_{len(self.nodes)}"
        self.nodes.append(self.make.make_node(operator, of, [name], name=name, **how))
        return name

    def cast(self, of: str, kind: Any = np.float64) -> str:
        return self.add("Cast", of, to=self._number(kind))

    def where_missing(self, of: str, value: float) -> str:
        return self.add("Where", self.add("IsNaN", of), self.constant(value), of)

    def add_input(self, name: str, kind: Any) -> str:
        """Add an input, and return it as a column, shape (n, 1)."""
        self.inputs.append(self._typed(name, kind))
        return self.add("Reshape", name, self.constant([-1, 1], np.int64))

    def add_output(self, name: str, of: str, kind: Any = np.float64, place: int = 0) -> None:
        """Add a column of a matrix as an output, shape (n,)."""
        self.add("Gather", of, self.constant(place, np.int64), name=name, axis=1)
        self.outputs.append(self._typed(name, kind))

    def _number(self, kind: Any) -> int:
        number: int = self.make.np_dtype_to_tensor_dtype(np.dtype(kind))
        return number

    def _typed(self, name: str, kind: Any) -> Any:
        return self.make.make_tensor_value_info(name, self._number(kind), ["rows"])


def onnx_model(federation: Federation, files: Mapping[str, bytes], dumped: str) -> bytes:
    """Return the ONNX file of a version.

    Inputs are named ``party.feature``; outputs are named as in score files of mode ``local``.

    Args:
        federation: The federation with which the version was trained.
        files: The version's files.
        dumped: Its model as LightGBM's JSON.

    Raises:
        ConfigError: The extra is not installed, or the model's objective is not supported.
    """
    graph, facts, model = _Graph(), json.loads(files["columns.json"]), json.loads(dumped)
    columns = raw_columns(federation, facts)
    matrix, rejected = _matrix(graph, federation, columns)
    trees = _trees(graph, model, [column.mapping for column in columns])
    raw = graph.add("Add", graph.add("TreeEnsemble", matrix, domain=_ML, **trees), rejected)
    limit = _threshold(federation, files)
    _outputs(graph, facts, limit, _predictions(graph, raw, model["objective"]))
    make = graph.make
    proto = make.make_model(
        make.make_graph(graph.nodes, "model", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[make.make_opsetid("", 18), make.make_opsetid(_ML, 5)],
        ir_version=9,
        producer_name="opboost-ops",
        doc_string=_NOTE,
    )
    version = json.loads(files["card.json"])["run"]
    make.set_model_props(proto, {"federation": federation.name, "version": version})
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def _matrix(graph: _Graph, federation: Federation, columns: Sequence[RawColumn]) -> tuple[str, str]:
    """Return the model's columns, and for each row 0, or NaN if the row is rejected."""
    first = {column.source: column for column in reversed(columns)}
    sources = {name: _input(graph, column) for name, column in first.items()}
    lacking: dict[str, str] = {}
    for party in federation.feature_holders if federation.keeps_all else ():
        gaps = [gap for name, (_, gap) in sources.items() if first[name].party == party]
        all_missing = reduce(lambda left, other: graph.add("Mul", left, other), gaps)
        lacking[party] = graph.cast(all_missing, np.bool_)

    def unless_lacking(column: RawColumn, of: str, value: float) -> str:
        if column.party not in lacking:
            return of
        return graph.add("Where", lacking[column.party], graph.constant(value), of)

    checked, stacked = [], []
    for name, column in first.items():
        values = unless_lacking(column, sources[name][0], 0.0)
        may_lack = column.made == "code" or column.declared.missing == "keep"
        checked.append(graph.where_missing(values, 0.0) if may_lack else values)
    for column in columns:
        values, gap = sources[column.source]
        if column.made == "bit":
            values = graph.cast(graph.add("Equal", values, graph.constant(column.bit)))
        values = gap if column.made == "missing" else values
        stacked.append(unless_lacking(column, values, math.nan))
    # 0 times NaN, and 0 times infinity, is NaN.
    zeros = graph.add("Mul", graph.add("Concat", *checked, axis=1), graph.constant(0.0))
    return graph.add("Concat", *stacked, axis=1), graph.add(
        "ReduceSum", zeros, graph.constant([1], np.int64)
    )


def _input(graph: _Graph, column: RawColumn) -> tuple[str, str]:
    """Return a raw column as numbers with its fill, and 1 where it was missing."""
    if column.declared.type == "numeric":
        numbers = graph.add_input(column.source, np.float64)
        gap, missing = graph.cast(graph.add("IsNaN", numbers)), column.declared.missing
        if isinstance(missing, Fill):
            numbers = graph.where_missing(numbers, float(missing.fill))
        return numbers, gap
    text = graph.add_input(column.source, np.object_)
    return _encode(graph, text, *_codes(column)), _encode(graph, text, {"": 1.0}, 0.0)


def _codes(column: RawColumn) -> tuple[dict[str, float], float]:
    """Return codes of raw categories, and the code of all others; infinity rejects the row."""
    feature, absent = column.declared, math.nan if column.made == "code" else math.inf
    declared = feature.categories or ()
    order = {name: float(at) for at, name in enumerate(column.categories or declared)}
    codes = dict.fromkeys(declared, absent) | order
    codes |= {raw: order.get(to, absent) for raw, to in feature.mapping.items()}
    codes |= {form: code for raw, code in codes.items() for form in _forms(raw)}
    default = math.inf if declared else math.nan
    if feature.rest is not None:
        default = order.get(feature.rest, absent)
    empty = math.nan if feature.missing == "keep" else math.inf
    if isinstance(feature.missing, Fill):
        empty = codes.get(str(feature.missing.fill), default)
    return {**codes, "": empty}, default


def _forms(raw: str) -> tuple[str, ...]:
    """Return a category's spellings in tables: also decomposed, and 3.0 in columns with gaps."""
    form = canonical(raw)
    others = (unicodedata.normalize("NFD", form), f"{form}.0")
    return (raw, form, *(other for other in others if canonical(other) == form))


def _encode(graph: _Graph, of: str, codes: Mapping[str, float], default: float) -> str:
    return graph.add(
        "LabelEncoder",
        of,
        domain=_ML,
        keys_tensor=graph.tensor(list(codes), np.object_),
        values_tensor=graph.tensor(list(codes.values())),
        default_tensor=graph.tensor([default]),
    )


def _trees(
    graph: _Graph, model: Mapping[str, Any], mappings: Sequence[DomainMap | None]
) -> dict[str, Any]:
    """Return the attributes of ``TreeEnsemble``."""
    targets = model["num_tree_per_iteration"]
    nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[int, float]] = []
    members: list[float] = []
    roots: list[int] = []

    @cache
    def raw(feature: int, threshold: float) -> float:
        mapping = mappings[feature]
        return threshold if mapping is None else _raw_threshold(mapping, threshold)

    def place(node: Mapping[str, Any], target: int) -> tuple[int, int]:
        if "leaf_value" in node:
            leaves.append((target, node["leaf_value"]))
            return len(leaves) - 1, 1
        at, feature, threshold = len(nodes), node["split_feature"], node["threshold"]
        nodes.append(())
        if node["decision_type"] == "==":
            members.extend((*map(float, threshold.split("||")), math.nan))
            how = (_MEMBER, 0.0, 0)
        else:
            left = node["default_left"] if node["missing_type"] == "NaN" else threshold >= 0
            how = (_AT_MOST, raw(feature, threshold), int(left))
        sides = (*place(node["left_child"], target), *place(node["right_child"], target))
        nodes[at] = (feature, *how, *sides)
        return at, 0

    for number, tree in enumerate(model["tree_info"]):
        root = tree["tree_structure"]
        roots.append(len(nodes))
        if "leaf_value" in root:
            # A root must be a node: use one with the same leaf on both sides.
            split = {"decision_type": "<=", "split_feature": 0, "threshold": 0.0}
            root = {**split, "missing_type": "", "left_child": root, "right_child": root}
        place(root, number % targets)
    attributes: dict[str, Any] = dict(zip(_NODE, zip(*nodes, strict=True), strict=True))
    if members:
        attributes["membership_values"] = graph.tensor(members)
    return {
        **attributes,
        "nodes_modes": graph.tensor(attributes["nodes_modes"], np.uint8),
        "nodes_splits": graph.tensor(attributes["nodes_splits"]),
        "tree_roots": roots,
        "leaf_targetids": [target for target, _ in leaves],
        "leaf_weights": graph.tensor([value for _, value in leaves]),
        "n_targets": targets,
    }


def _raw_threshold(mapping: DomainMap, threshold: float) -> float:
    """Return the greatest raw number whose integer is at most a threshold."""
    lowest, highest = mapping.encode(np.array(mapping.bounds))
    if threshold < lowest:
        return -math.inf
    return math.inf if threshold >= highest else mapping.highest(math.floor(threshold))


def _predictions(graph: _Graph, raw: str, objective: str) -> str:
    """Return predictions for raw scores, as LightGBM computes them."""
    name, _, slope = objective.partition(" sigmoid:")
    if name == "binary":
        return graph.add("Sigmoid", graph.add("Mul", raw, graph.constant(float(slope))))
    name = objective.split()[0]
    if name == "multiclass":
        return graph.add("Softmax", raw, axis=1)
    if name in ("poisson", "tweedie"):
        return graph.add("Exp", raw)
    if name in ("regression", "regression_l1", "huber", "quantile"):
        return raw
    raise ConfigError(f"Models with the objective {objective} cannot be exported as ONNX.")


def _threshold(federation: Federation, files: Mapping[str, bytes]) -> float:
    """Return the uncalibrated score above which mode ``local`` predicts the second class."""
    fitted = json.loads(files.get("scoring.json", b"{}")).get("local", {})
    limit = threshold(federation.scoring.cost_ratio)
    calibration = fitted.get("calibration")
    return limit if calibration is None else highest_score(calibration, limit)


def _outputs(graph: _Graph, facts: Mapping[str, Any], threshold: float, scores: str) -> None:
    classes = facts["classes"]
    if not classes:
        graph.add_output("score", scores)
        return
    if facts["task"] == "binary":
        graph.add_output("score", scores)
        index = graph.cast(graph.add("Greater", scores, graph.constant(threshold)), np.int64)
        scores = graph.add("Concat", graph.add("Sub", graph.constant(1.0), scores), scores, axis=1)
    else:
        graph.add_output("score", graph.add("ReduceMax", scores, graph.constant([1], np.int64)))
        index = graph.add("ArgMax", scores, axis=1)
    kind = np.int64 if isinstance(classes[0], int) else np.object_
    names = graph.add("Gather", graph.constant(classes, kind), index)
    if kind is np.object_:  # Rejected rows have no class.
        first = graph.add("Gather", scores, graph.constant([0], np.int64), axis=1)
        names = graph.add("Where", graph.add("IsNaN", first), graph.constant("", kind), names)
    graph.add_output("class", names, kind)
    for place, name in enumerate(classes):
        graph.add_output(f"probability_{name}", scores, place=place)
