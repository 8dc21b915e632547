"""Expectation suites: templates from ``schemas/expectations``, filled with the plan's facts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from opboost_ops.config.federation import Feature, IdColumn, Label, Party
from opboost_ops.config.policy import Checks
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.resources import schemas_folder

TIGHTENING = "expectations.yaml"


@dataclass(frozen=True)
class Suite:
    """Expectations on one boundary.

    Attributes:
        name: The boundary.
        expectations: Great Expectations' configurations: ``type`` and ``kwargs``.
    """

    name: str
    expectations: tuple[Mapping[str, Any], ...]


def raw_table(party: Party, identity: IdColumn, checks: Checks) -> Suite:
    """A party's own table, as its owner wrote it."""
    numeric: list[dict[str, Any]] = []
    complete: list[dict[str, Any]] = []
    partial: list[dict[str, Any]] = []
    bounded: list[dict[str, Any]] = []
    ordinal: list[dict[str, Any]] = []
    for name, feature in party.features.items():
        facts: dict[str, Any] = {"column": name}
        forbidden = feature.missing == "forbid"
        (complete if forbidden else partial).append(facts)
        if feature.type == "numeric":
            numeric.append(facts)
        if feature.type == "numeric" and feature.bounds is not None:
            lower, upper = feature.bounds
            bounded.append({**facts, "lower": lower, "upper": upper})
        if feature.type == "ordinal":
            ordinal.append({**facts, "categories": list(feature.categories or ())})
    label: list[dict[str, Any]] = []
    classes: list[dict[str, Any]] = []
    if party.label is not None:
        label.append({"column": party.label.column})
        if party.label.task != "regression":
            classes.append({"column": party.label.column})
    shares = {
        "present": 1 - checks.max_missing_share,
        "inside": 1 - checks.max_clipped_share,
    }
    groups = {
        "id": [{"column": identity.column}],
        "text_id": [{"column": identity.column}] if identity.type == "string" else [],
        "feature": [{"column": name} for name in party.features],
        "numeric": numeric,
        "complete": complete,
        "partial": partial,
        "bounded": bounded,
        "ordinal": ordinal,
        "label": label,
        "class_label": classes,
    }
    return _filled("raw_table", groups, shares)


def preprocessed_table(features: Mapping[str, Feature], domain: Domain, rows: int) -> Suite:
    """Domain integers, before or after they were randomised."""
    return _filled("preprocessed_table", _columns(list(features)), _range(domain, rows))


def release(columns: Sequence[str], rows: int, domain: Domain) -> Suite:
    """Dense ranks before publication."""
    return _filled("release", _columns(columns), _range(domain, rows))


def acceptance(columns: Sequence[str], rows: int, domain: Domain) -> Suite:
    """Another party's dense ranks on acceptance."""
    return _filled("acceptance", _columns(columns), _range(domain, rows))


def training_frame(
    columns: Sequence[str], label: Label, rows: int, ranked: Mapping[str, int]
) -> Suite:
    """Own features, others' ranks and the label, row by row.

    Args:
        columns: All features.
        label: The label's declaration.
        rows: Row count.
        ranked: Number of dense ranks by ranked feature.
    """
    groups: dict[str, list[dict[str, Any]]] = {
        "feature": [{"column": name} for name in columns],
        "ranked": [{"column": name, "ranks": count} for name, count in ranked.items()],
        "class_label": [{"column": "label"}] if label.task != "regression" else [],
        "label": [{"column": "label"}],
    }
    return _filled("training_frame", groups, {"rows": rows})


def model(task: str, domain: Domain) -> Suite:
    """A materialised model, by a table of its predictions and its thresholds on others' features.

    Args:
        task: What was learnt.
        domain: Where thresholds must lie.
    """
    groups = {
        "prediction": [{"column": "prediction"}],
        "probability": [{"column": "prediction"}] if task != "regression" else [],
        "threshold": [{"column": "threshold"}],
    }
    return _filled("model", groups, {"lower": domain.lower, "upper": domain.upper})


def tightened(suite: Suite, site_folder: Path) -> Suite:
    """The suite with the expectations that a party adds in ``expectations.yaml``.

    Args:
        suite: The computed one; nothing of it is ever taken away.
        site_folder: Where ``site.yaml`` lies.

    Raises:
        ConfigError: The file is malformed, or names an unknown expectation.
    """
    path = site_folder / TIGHTENING
    if not path.is_file():
        return suite
    added: Any = None
    try:
        added = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get(suite.name, [])
    except (yaml.YAMLError, AttributeError, UnicodeDecodeError):
        added = None
    well_formed = isinstance(added, list) and all(
        isinstance(entry, dict)
        and set(entry) == {"type", "kwargs"}
        and isinstance(entry["kwargs"], dict)
        for entry in added
    )
    if not well_formed:
        raise ConfigError(
            f"{TIGHTENING}: {suite.name} must be a list of entries with type and kwargs."
        )
    import great_expectations.expectations as known

    for entry in added:
        name = "".join(part.title() for part in str(entry["type"]).split("_"))
        if not hasattr(known, name):
            raise ConfigError(
                f"{TIGHTENING}: {suite.name} names an unknown expectation {entry['type']}.",
                "Use one of Great Expectations' own, such as expect_column_max_to_be_between.",
            )
    return replace(suite, expectations=(*suite.expectations, *added))


def _columns(names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    return {"column": [{"column": name} for name in names]}


def _range(domain: Domain, rows: int) -> dict[str, Any]:
    return {"lower": domain.lower, "upper": domain.upper, "size": domain.size, "rows": rows}


def _filled(
    boundary: str, groups: Mapping[str, Sequence[Mapping[str, Any]]], facts: Mapping[str, Any]
) -> Suite:
    path = schemas_folder() / "expectations" / f"{boundary}.json"
    expectations: list[Mapping[str, Any]] = []
    for template in json.loads(path.read_text(encoding="utf-8"))["expectations"]:
        for item in groups.get(template["for"], [{}] if template["for"] == "table" else []):
            known = {**facts, **item}
            kwargs = {
                name: known[value[1:]] if isinstance(value, str) and value[:1] == "$" else value
                for name, value in template["kwargs"].items()
            }
            expectations.append({"type": template["type"], "kwargs": kwargs})
    return Suite(boundary, tuple(expectations))
