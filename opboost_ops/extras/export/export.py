"""Export of a registered model for other programs, with a description of its input columns."""

import json
from collections.abc import Mapping
from typing import Any

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.schema import Record
from opboost_ops.domain import DomainMap
from opboost_ops.errors import ConfigError
from opboost_ops.extras.export.onnx_graph import onnx_model
from opboost_ops.learning.boosters.trainer import MODEL_FORMATS
from opboost_ops.learning.registry.importance import RawColumn, raw_columns
from opboost_ops.learning.registry.registry import backend_in, federation_in, model_in

#: ONNX models take raw columns, all others mapped ones: docs/adr/0009-boosters-and-export.md.
FORMATS = tuple(dict.fromkeys(form for backend in MODEL_FORMATS for form in backend.forms))

_NOTE = (
    "The model takes a matrix of 64-bit floats with its columns in this order. It expects other "
    "parties' features as integers of the declared domain, as `values` says: raw numbers give "
    "meaningless predictions without an error. It was trained on randomised integers."
)

#: Formulas of the distances a of x and b of the upper bound from the lower bound, by scale.
_DISTANCES = {
    "linear": "a = x - lower and b = upper - lower",
    "log1p": "a = log1p(x - lower) and b = log1p(upper - lower)",
}


class ModelColumn(Record):
    """One column of a model.

    Attributes:
        name: Name in the model.
        party: Party that has the feature.
        feature: Feature that the column is computed from.
        values: Description of its values.
        categories: Categories of the label holder's nominal feature, in the order of their codes.
        declared: The feature's declaration, without its UUID and mechanism.
    """

    name: str
    party: str
    feature: str
    values: str
    categories: tuple[str, ...] | None = None
    declared: Mapping[str, Any]


class ModelColumns(Record):
    """Inputs and outputs of an exported model.

    Attributes:
        note: Warning for users of the model.
        predicts: The label column.
        task: Learning task.
        classes: Class values in the order of the model's indices; empty for regression.
        domain: Bounds L and R of other parties' features without a domain of their own.
        columns: Columns in the model's order.
    """

    note: str = _NOTE
    predicts: str
    task: str
    classes: tuple[str | int, ...]
    domain: tuple[int, int]
    columns: tuple[ModelColumn, ...]

    def json_bytes(self) -> bytes:
        """Return the description as indented JSON."""
        return self.model_dump_json(indent=1).encode()


def export_model(files: Mapping[str, bytes], form: str | None = None) -> bytes:
    """Convert a registered version's model to another format with the same predictions.

    Args:
        files: The version's files.
        form: ``text``, LightGBM's own format; ``json``, XGBoost's own format or the output of
            LightGBM's ``dump_model``; ``onnx``, which takes raw columns. Default: the booster's
            own format.

    Raises:
        ConfigError: The model cannot be exported in this format.
    """
    if form is not None and form not in FORMATS:
        raise ConfigError(f"Models are exported as {', '.join(FORMATS)}, not as {form}.")
    backend = backend_in(files)
    if form is not None and form not in backend.forms:
        raise ConfigError(
            f"Models of {backend.name} are exported as {' or '.join(backend.forms)}, not as {form}."
        )
    if form == "onnx":
        dumped = backend.export(model_in(files), "json")
        return onnx_model(federation_in(files), files, dumped)
    return backend.export(model_in(files), form or backend.forms[0]).encode()


def model_columns(files: Mapping[str, bytes]) -> ModelColumns:
    """Describe the columns of a registered version.

    Args:
        files: The version's files.
    """
    federation = federation_in(files)
    facts = json.loads(files["columns.json"])
    label = federation.parties[federation.label_holder].label
    assert label is not None
    return ModelColumns(
        predicts=label.column,
        task=facts["task"],
        classes=tuple(facts["classes"]),
        domain=(federation.domain.lower, federation.domain.upper),
        columns=tuple(_column(column) for column in raw_columns(federation, facts)),
    )


def _column(column: RawColumn) -> ModelColumn:
    feature = column.declared
    return ModelColumn(
        name=column.name,
        party=column.party,
        feature=column.feature,
        values=_values(column),
        categories=column.categories,
        declared=feature.model_dump(
            mode="json",
            exclude={"uuid": True, "mechanism": True, "missing": {"bit": True}},
            exclude_none=True,
        ),
    )


def _values(column: RawColumn) -> str:
    feature = column.declared
    if column.made == "missing":
        return "1 where the value was missing, 0 elsewhere."
    if column.bit is not None:
        assert feature.categories is not None
        category = json.dumps(feature.categories[column.bit], ensure_ascii=False)
        return f"1 where the category is {category}, 0 elsewhere" + _missing(feature)
    if column.mapping is not None:
        return _mapped_values(column.mapping, feature)
    return _label_holder_values(feature)


def _label_holder_values(feature: Feature) -> str:
    if feature.type == "nominal":
        text = "Position in `categories`, from 0; NaN for any other category"
    elif feature.type == "ordinal":
        text = "Position in `declared.categories`, from 0"
    else:
        text = "The raw number"
    return text + _missing(feature)


def _mapped_values(mapping: DomainMap, feature: Feature) -> str:
    lower, upper = mapping.domain.lower, mapping.domain.upper
    if mapping.edges is not None:
        text = f"{lower} + the number of `declared.scale.edges` below x"
    else:
        text = f"{lower} + ceil(a * {upper - lower} / b), where {_DISTANCES[mapping.scale]}"
    x = "the position in `declared.categories`, from 0" if feature.categories else "the number"
    bounds = f"lower {mapping.bounds[0]:g} and upper {mapping.bounds[1]:g}"
    return f"{text}, and x is {x}, clipped to {bounds}" + _missing(feature)


def _missing(feature: Feature) -> str:
    if isinstance(feature.missing, Fill):
        return f"; a missing value counts as {json.dumps(feature.missing.fill)}."
    return "; NaN where missing." if feature.missing == "keep" else "."
