"""Converts pydantic's validation errors to faults with a place and a suggestion."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from opboost_ops.config.federation import Federation
from opboost_ops.config.parameters import training_key_fault
from opboost_ops.errors import Fault

#: Number of similar faults from which they are merged.
_MERGE_FROM = 4

#: Entries that `opboost bounds` fills in.
_FROM_BOUNDS = ("bounds", "categories", "missing.fill")

_FEATURES = ".features."


def merge_similar(faults: Iterable[Fault]) -> list[Fault]:
    """Merge faults that differ only in the feature; the order is kept.

    Args:
        faults: All faults of a file.

        >>> faults = [Fault(f"parties.b.features.x{i}.bounds", "is required") for i in range(9)]
        >>> [fault.where for fault in merge_similar(faults)]
        ['parties.b.features.*.bounds']
    """
    groups: dict[tuple[str, str, str, str], list[tuple[str, Fault]]] = {}
    for fault in faults:
        before, inside, after = fault.where.partition(_FEATURES)
        feature, _, key = after.partition(".")
        unmergeable = not inside or not key
        group = (fault.where if unmergeable else before, key, fault.problem, fault.suggestion)
        groups.setdefault(group, []).append((feature, fault))
    merged: list[Fault] = []
    for (before, key, problem, suggestion), members in groups.items():
        if len(members) < _MERGE_FROM:
            merged += [fault for _, fault in members]
            continue
        remedy = [suggestion] if suggestion else []
        if key in _FROM_BOUNDS:
            remedy.append("fill in bounds.csv, which `opboost init` writes, then `opboost bounds`")
        names = ", ".join(feature for feature, _ in members)
        merged.append(
            Fault(
                f"{before}{_FEATURES}*.{key}",
                f"{problem}; the same applies to {len(members)} features: {names}",
                "; ".join(remedy),
            )
        )
    return merged


def entry_faults(model: type[BaseModel], data: Any, errors: Sequence[Any]) -> list[Fault]:
    """Return one fault per place, since each member of a union reports its own error there.

    Args:
        model: Model of the file.
        data: Content of the file.
        errors: Pydantic's errors.
    """
    faults: dict[tuple[str, bool], Fault] = {}
    places = [[*location_in(data, error)] for error in errors if error["type"] != "literal_error"]
    for error in errors:
        # A mapping in place of a word: errors inside the mapping are more specific.
        if error["type"] == "literal_error" and isinstance(error["input"], dict):
            place = [*location_in(data, error)]
            if any(other[: len(place)] == place for other in places):
                continue
        fault = _fault(model, data, error)
        kind = error["type"].endswith(("_type", "_parsing"))
        faults.setdefault((fault.where, kind) if kind else (str(fault), kind), fault)
    return list(faults.values())


def location_in(data: Any, error: Any) -> Iterator[Any]:
    """Yield an error's path in the file, without the union members that pydantic's path contains.

    Args:
        data: Content of the file.
        error: Pydantic's error.
    """
    inside = data
    last = len(error["loc"]) - 1
    for at, step in enumerate(error["loc"]):
        absent = error["type"] == "missing" and at == last
        if isinstance(inside, dict) and (step in inside or absent):
            yield step
            inside = inside.get(step)
        elif isinstance(inside, list) and isinstance(step, int) and step < len(inside):
            yield step
            inside = inside[step]


def _fault(model: type[BaseModel], data: Any, error: Any) -> Fault:
    where = [str(step) for step in location_in(data, error)]
    problem = error["msg"].removeprefix("Value error, ")
    suggestion = ""
    if error["type"] == "extra_forbidden":
        problem = "is not a known key"
        keys = _known_keys(model, error["loc"][:-1])
        if model is Federation and len(where) == 2 and where[0] == "training":
            trainer = str(error["loc"][1])
            return Fault(".".join(where), *training_key_fault(trainer, where[1], keys))
        near = difflib.get_close_matches(str(error["loc"][-1]), keys, n=1)
        suggestion = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(keys)}"
    elif error["type"] == "missing":
        problem = "is required"
    elif error["type"] == "string_pattern_mismatch":
        problem = f"does not have the form {error['ctx']['pattern']}"
    elif error["type"] in _NEEDS:
        problem, suggestion = _of_type(error["type"], error["input"])
    elif error["type"] == "literal_error" and isinstance(error["input"], str):
        suggestion = _closest(error["input"], error["ctx"]["expected"])
    elif error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        what = "trainer" if where == ["training"] else "mechanism"
        where.append("trainer" if what == "trainer" else "name")
        problem = "is required"
        if error["type"] == "union_tag_invalid":
            problem = f"is not the name of a {what}"
            suggestion = _closest(error["ctx"]["tag"], error["ctx"]["expected_tags"])
    return Fault(".".join(where), problem, suggestion)


_NEEDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
}


def _of_type(kind: str, value: Any) -> tuple[str, str]:
    """Return problem and suggestion for a value of the wrong type, without showing the value."""
    named = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
    named |= {dict: "a mapping", list: "a list", type(None): "empty"}
    what, needed = named.get(type(value), "a date"), _NEEDS[kind]
    if isinstance(value, float) and kind == "int_type":
        return "must be a whole number", "without a point"
    problem = f"is {what}, where {needed} is needed"
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", value):
        return problem, "in YAML such a number has a point and a sign: 1.0e-6"
    if isinstance(value, str):
        return problem, "write it without quotes"
    # YAML parses yes, no, on, off, 12 and 2020-01-01 without quotes as other types.
    quoted = kind == "string_type" and not isinstance(value, dict | list | None)
    return problem, "put it in quotes" if quoted else ""


def _known_keys(model: type[BaseModel], steps: tuple[Any, ...]) -> list[str]:
    models = [model]
    for step in steps:
        inner = [m.model_fields[step].annotation for m in models if step in m.model_fields]
        tagged = [m for m in models if _tag(m) == step]
        if inner:
            models = [m for annotation in inner for m in _models_in(annotation)]
        elif tagged:
            models = tagged
    return sorted({name for m in models for name in m.model_fields})


def _tag(model: type[BaseModel]) -> Any:
    named = model.model_fields.get("name") or model.model_fields.get("trainer")
    return next(iter(get_args(named.annotation)), None) if named else None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for inner in get_args(annotation) for m in _models_in(inner)]


def _closest(text: str, expected: str) -> str:
    choices = expected.replace("'", "").replace(" or ", ", ").split(", ")
    near = difflib.get_close_matches(text, choices, n=1)
    return f"did you mean {near[0]}?" if near else f"choose one of {', '.join(choices)}"
