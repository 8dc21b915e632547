"""Expectation suites: templates from ``schemas/expectations``, filled with the plan's facts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.federation import IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.config.resources import schemas_folder
from opboost_ops.domain import Domain


@dataclass(frozen=True)
class Suite:
    """Expectations on one boundary.

    Attributes:
        name: The boundary.
        expectations: Great Expectations' configurations, ``type`` and ``kwargs``, and the
            ``indicator`` of what it has no expectation for. They are measured in a profile.
        own: Configurations that the party has added itself. They are validated on the rows.
    """

    name: str
    expectations: tuple[Mapping[str, Any], ...]
    own: tuple[Mapping[str, Any], ...] = ()


#: What the templates are about, by group: the facts of each member.
_Groups = dict[str, list[dict[str, Any]]]

#: A share of fewer new rows than this says nothing: of one row it is all or nothing.
FEWEST_FOR_SHARES = 100


def raw_table(party: Party, identity: IdColumn, checks: Checks) -> Suite:
    """A party's own table to train on, as its owner wrote it."""
    return _filled("raw_table", _raw(party, identity), _shares(checks))


def new_rows(party: Party, identity: IdColumn, checks: Checks, rows: int) -> Suite:
    """A party's new rows, of which there may be one: what each row must be, not how they vary.

    Of the training table's suite nothing is left that is about a column as a whole: that it has two
    values or more; and below `FEWEST_FOR_SHARES` rows, which share of it is missing or clipped.

    Args:
        party: As declared; its label is not asked for.
        identity: The ID column.
        checks: Of the party's policy.
        rows: How many there are.
    """
    groups = _raw(party, identity)
    if rows < FEWEST_FOR_SHARES:
        groups |= {"partial": [], "bounded": []}
    return _filled("new_rows", groups, _shares(checks))


def _shares(checks: Checks) -> dict[str, float]:
    return {
        "present": round(1 - checks.max_missing_share, 12),
        "inside": round(1 - checks.max_clipped_share, 12),
    }


def _raw(party: Party, identity: IdColumn) -> _Groups:
    features = party.features.items()
    numbers = {name: feature for name, feature in features if feature.type == "numeric"}
    return {
        "id": _named(identity.column),
        "text_id": _named(identity.column) if identity.type == "string" else [],
        "feature": _named(*party.features),
        "numeric": _named(*numbers),
        "complete": _named(*(name for name, of in features if of.missing == "forbid")),
        "partial": _named(*(name for name, of in features if of.missing != "forbid")),
        "bounded": [
            {"column": name, "lower": of.bounds[0], "upper": of.bounds[1]}
            for name, of in numbers.items()
            if of.bounds is not None
        ],
        "categorised": [
            {"column": name, "categories": list(of.categories)}
            for name, of in features
            if of.categories and name not in numbers
        ],
        **_raw_label(party.label),
    }


def _named(*columns: str) -> list[dict[str, Any]]:
    return [{"column": name} for name in columns]


def preprocessed_table(columns: Mapping[str, Domain], rows: int) -> Suite:
    """Domain integers, before or after they were randomised, each in its column's domain."""
    return _filled("preprocessed_table", _columns(columns), {"rows": rows})


def release(columns: Mapping[str, Domain], rows: int, dense: bool = True) -> Suite:
    """Ranks before publication, at most as many as the column's domain has values.

    Args:
        columns: Domains.
        rows: Row count.
        dense: Whether every rank from 1 to the highest must be there.
    """
    groups = {"dense": [], "sparse": [], **_columns(columns)}
    groups["dense" if dense else "sparse"] = groups["column"]
    return _filled("release", groups, {"rows": rows})


def training_frame(
    columns: Sequence[str],
    label: Label,
    classes: int,
    rows: int,
    ranked: Mapping[str, int],
    missing: bool = False,
) -> Suite:
    """Own features, others' ranks and the label, row by row.

    Args:
        columns: All features.
        label: The label's declaration.
        classes: Number of classes; 0 in regression.
        rows: Row count.
        ranked: Highest possible rank by ranked feature.
        missing: Whether a ranked feature may miss values.
    """
    item = {"column": "label", "codes": [float(code) for code in range(classes)]}
    regression = label.task == "regression"
    groups = {
        "feature": _named(*columns),
        "ranked": [{"column": name, "ranks": highest} for name, highest in ranked.items()],
        "complete": [] if missing else _named(*ranked),
        "label": [item],
        "class_label": [] if regression else [item],
        "number_label": [item] if regression else [],
    }
    return _filled("training_frame", groups, {"rows": rows})


def model(task: str) -> Suite:
    """A materialised model, by a table of its predictions and its thresholds on others' features.

    Thresholds are given as shares of their column's domain: 0 is its lower bound, 1 its upper one.

    Args:
        task: What was learnt.
    """
    groups = {
        "prediction": _named("prediction"),
        "probability": _named("prediction") if task != "regression" else [],
        "threshold": _named("threshold"),
    }
    return _filled("model", groups, {"lower": 0, "upper": 1})


def scores(
    identity: str,
    task: str,
    classes: Sequence[str | int],
    rows: int,
    probabilities: Sequence[str] = (),
) -> Suite:
    """Scores of new rows, one a person.

    Args:
        identity: The ID column.
        task: What was learnt.
        classes: The classes in order; empty in regression.
        rows: Row count.
        probabilities: Columns of the classes' probabilities.
    """
    groups: _Groups = {
        "id": _named(identity),
        "prediction": _named("score"),
        "probability": _named("score") if task != "regression" else [],
        "class": [{"column": "class", "classes": list(classes)}] if classes else [],
        "share": _named(*probabilities),
    }
    return _filled("scores", groups, {"rows": rows})


def _raw_label(label: Label | None) -> _Groups:
    if label is None:
        return {name: [] for name in ("label", "class_label", "declared_label", "number_label")}
    item = {"column": label.column, "most": 2 if label.task == "binary" else None}
    declared = {**item, "classes": [str(value) for value in label.classes or ()]}
    regression = label.task == "regression"
    return {
        "label": [item],
        "class_label": [] if regression else [item],
        "declared_label": [declared] if label.classes and not regression else [],
        "number_label": [item] if regression else [],
    }


def _columns(domains: Mapping[str, Domain]) -> _Groups:
    items = [
        {"column": name, "lower": domain.lower, "upper": domain.upper, "size": domain.size}
        for name, domain in domains.items()
    ]
    return {"column": items}


def _filled(boundary: str, groups: _Groups, facts: Mapping[str, Any]) -> Suite:
    path = schemas_folder() / "expectations" / f"{boundary}.json"
    expectations: list[Mapping[str, Any]] = []
    for template in json.loads(path.read_text(encoding="utf-8"))["expectations"]:
        about = template.pop("for")
        for item in [{}] if about == "table" else groups[about]:
            known = {**facts, **item}
            kwargs = {
                name: known[value[1:]] if isinstance(value, str) and value[:1] == "$" else value
                for name, value in template["kwargs"].items()
            }
            expectations.append({**template, "kwargs": kwargs})
    return Suite(boundary, tuple(expectations))
