"""A registered model for other programs, and what its columns must hold before it is used."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from opboost_ops.boosting.trainer import READERS
from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.feature import PlainFill, SharedFeature
from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.schema import Record
from opboost_ops.config.shared_columns import EVERYONE, shared_columns
from opboost_ops.errors import ConfigError
from opboost_ops.models.registry import backend_in, model_in

#: The boosters' own. Why ONNX is not among them: docs/adr/0006-export.md.
FORMATS = tuple(dict.fromkeys(form for backend in READERS for form in backend.forms))

_NOTE = (
    "The model takes a matrix of 64-bit floats, its columns in this order. It expects of other "
    "parties' features integers of the declared domain, as `values` says: raw numbers give "
    "predictions without any meaning, and no error. It was trained on randomised integers."
)

#: How far x is through its bounds, by scale.
_SHARE = {
    "linear": "(x - lower) / (upper - lower)",
    "log1p": "log1p(x - lower) / log1p(upper - lower)",
}


class ModelColumn(Record):
    """One column of a model.

    Attributes:
        name: As the model names it.
        party: Who holds the feature.
        feature: What it is made from.
        values: How it is made, in words.
        categories: Of the label holder's nominal feature, in the order of their codes.
        declared: The feature's declaration, without its UUID and mechanism.
    """

    name: str
    party: str
    feature: str
    values: str
    categories: tuple[str, ...] | None = None
    declared: Mapping[str, Any]


class ModelColumns(Record):
    """What an exported model expects and gives.

    Attributes:
        note: What must not be overlooked.
        predicts: The label column.
        task: What is learnt.
        classes: Class values in the order of the model's indices; empty for regression.
        domain: Bounds L and R of other parties' features.
        columns: In the model's order.
    """

    note: str = _NOTE
    predicts: str
    task: str
    classes: tuple[str | int, ...]
    domain: tuple[int, int]
    columns: tuple[ModelColumn, ...]

    def json_bytes(self) -> bytes:
        """For programs and people."""
        return self.model_dump_json(indent=1).encode()


def export_model(files: Mapping[str, bytes], form: str | None = None) -> bytes:
    """A registered version's model in another program's form; its predictions are the same.

    Args:
        files: The version's files.
        form: ``text``, LightGBM's own file; ``json``, XGBoost's own file, or what LightGBM's
            ``dump_model`` gives; its booster's own file when absent.

    Raises:
        ConfigError: There is no such form of this model.
    """
    if form is not None and form not in FORMATS:
        raise ConfigError(
            f"A model is exported as {' or '.join(FORMATS)}, not as {form}.",
            "ONNX would not be exact: docs/scoring.md says why." if form == "onnx" else "",
        )
    backend = backend_in(files)
    if form is not None and form not in backend.forms:
        raise ConfigError(
            f"This model is {backend.name}'s, which is exported as {' or '.join(backend.forms)}, "
            f"not as {form}."
        )
    return backend.export(model_in(files), form or backend.forms[0]).encode()


def federation_in(files: Mapping[str, bytes]) -> Federation:
    """The federation with which a version was trained.

    Args:
        files: The version's files.
    """
    return parse_federation(json.loads(files["federation.json"]), "federation.json", stored=True)


def model_columns(files: Mapping[str, bytes]) -> ModelColumns:
    """What the columns of a registered version hold.

    Args:
        files: The version's files.
    """
    federation = federation_in(files)
    facts = json.loads(files["columns.json"])
    found = {column.name: column for column in _columns(federation, facts["categories"])}
    label = federation.parties[federation.label_holder].label
    assert label is not None
    return ModelColumns(
        predicts=label.column,
        task=facts["task"],
        classes=tuple(facts["classes"]),
        domain=(federation.domain.lower, federation.domain.upper),
        columns=tuple(found[name] for name in facts["names"]),
    )


def _columns(federation: Federation, categories: Mapping[str, list[str]]) -> Iterator[ModelColumn]:
    if federation.learning == "horizontal":
        for shared in shared_columns(federation):
            feature = federation.features[shared.feature]
            words = _own(feature)
            if shared.bit is not None:
                words = _bit(feature, shared.bit)
            yield _column(shared.name, EVERYONE, shared.feature, feature, words)
        return
    for party, spec in federation.parties.items():
        if party == federation.label_holder:
            for name, feature in spec.features.items():
                full = f"{party}.{name}"
                codes = tuple(categories[full]) if full in categories else None
                yield _column(full, party, name, feature, _own(feature), codes)
        else:
            for column in columns_of(federation, party):
                feature = spec.features[column.feature]
                words = _protected(column, feature)
                yield _column(f"{party}.{column.name}", party, column.feature, feature, words)


def _column(
    name: str,
    party: str,
    feature: str,
    declared: SharedFeature,
    values: str,
    categories: tuple[str, ...] | None = None,
) -> ModelColumn:
    return ModelColumn(
        name=name,
        party=party,
        feature=feature,
        values=values,
        categories=categories,
        declared=declared.model_dump(
            mode="json",
            exclude={"uuid": True, "mechanism": True, "missing": {"bit": True}},
            exclude_none=True,
        ),
    )


def _own(feature: SharedFeature) -> str:
    if feature.type == "nominal":
        words = "Position in `categories`, from 0; NaN for any other category"
    elif feature.type == "ordinal":
        words = "Position in `declared.categories`, from 0"
    else:
        words = "The number as it is"
    return words + _missing(feature)


def _protected(column: Column, feature: SharedFeature) -> str:
    if column.source != column.feature:
        return "1 where the value was missing, 0 elsewhere."
    if column.bit is not None:
        return _bit(feature, column.bit)
    mapping = feature.domain_map(column.domain)
    lower, upper = column.domain.lower, column.domain.upper
    if mapping.edges is not None:
        words = f"{lower} plus how many of `declared.scale.edges` are below x"
    else:
        words = f"{lower} + ceil(s * {upper - lower}), where s = {_SHARE[mapping.scale]}"
    x = "the position in `declared.categories`, from 0" if feature.categories else "the number"
    bounds = f"lower {mapping.bounds[0]:g} and upper {mapping.bounds[1]:g}"
    return f"{words}, and x is {x}, clipped to {bounds}" + _missing(feature)


def _bit(feature: SharedFeature, bit: int) -> str:
    assert feature.categories is not None
    category = json.dumps(feature.categories[bit], ensure_ascii=False)
    return f"1 where the category is {category}, 0 elsewhere" + _missing(feature)


def _missing(feature: SharedFeature) -> str:
    if isinstance(feature.missing, PlainFill):
        return f"; a missing value counts as {json.dumps(feature.missing.fill)}."
    return "; NaN where missing." if feature.missing == "keep" else "."
