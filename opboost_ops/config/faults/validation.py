"""Faults that pydantic finds in a file, with a place and a suggestion."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from opboost_ops.config.federation import Federation
from opboost_ops.config.parameters import not_of_trainer
from opboost_ops.errors import Fault

#: From so many on.
_FEWEST = 4

#: What `opboost bounds` fills in.
_FILLED = ("bounds", "categories", "missing.fill")

_INSIDE = ".features."


def grouped(faults: Iterable[Fault]) -> list[Fault]:
    """The faults in their order, those that differ in nothing but the feature in one.

    Args:
        faults: All of a file.

        >>> faults = [Fault(f"parties.b.features.x{i}.bounds", "is required") for i in range(9)]
        >>> [fault.where for fault in grouped(faults)]
        ['parties.b.features.*.bounds']
    """
    groups: dict[tuple[str, str, str, str], list[tuple[str, Fault]]] = {}
    for fault in faults:
        before, inside, after = fault.where.partition(_INSIDE)
        feature, _, key = after.partition(".")
        alone = not inside or not key
        group = (fault.where if alone else before, key, fault.problem, fault.suggestion)
        groups.setdefault(group, []).append((feature, fault))
    merged: list[Fault] = []
    for (before, key, problem, suggestion), members in groups.items():
        if len(members) < _FEWEST:
            merged += [fault for _, fault in members]
            continue
        remedy = [suggestion] if suggestion else []
        if key in _FILLED:
            remedy.append("fill in bounds.csv, which `opboost init` writes, then `opboost bounds`")
        names = ", ".join(feature for feature, _ in members)
        merged.append(
            Fault(
                f"{before}{_INSIDE}*.{key}",
                f"{problem}; so it is with {len(members)} features: {names}",
                "; ".join(remedy),
            )
        )
    return merged


def entry_faults(model: type[BaseModel], data: Any, errors: Sequence[Any]) -> list[Fault]:
    """One fault a place: of what might stand there, each has its own words for what does.

    Args:
        model: What the file is to be.
        data: What it holds.
        errors: Pydantic's.
    """
    faults: dict[tuple[str, bool], Fault] = {}
    for error in errors:
        # A mapping where a word may stand, too: what is wrong inside it is named.
        if (
            error["type"] == "literal_error"
            and isinstance(error["input"], dict)
            and len(errors) > 1
        ):
            continue
        fault = _fault(model, data, error)
        kind = error["type"].endswith(("_type", "_parsing"))
        faults.setdefault((fault.where, kind) if kind else (str(fault), kind), fault)
    return list(faults.values())


def steps_to(data: Any, error: Any) -> Iterator[Any]:
    """Where an error is: pydantic's places name union members too; only what is there is kept.

    Args:
        data: What the file holds.
        error: Pydantic's.
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
    where = [str(step) for step in steps_to(data, error)]
    problem = error["msg"].removeprefix("Value error, ")
    suggestion = ""
    if error["type"] == "extra_forbidden":
        problem = "is not a known key"
        keys = _known_keys(model, error["loc"][:-1])
        if model is Federation and len(where) == 2 and where[0] == "training":
            trainer = str(error["loc"][1])
            return Fault(".".join(where), *not_of_trainer(trainer, where[1], keys))
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
            problem = f"names no {what}"
            suggestion = _closest(error["ctx"]["tag"], error["ctx"]["expected_tags"])
    return Fault(".".join(where), problem, suggestion)


_NEEDS = {
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
}


def _of_type(kind: str, value: Any) -> tuple[str, str]:
    """The problem of a value of the wrong type, and what to write; neither shows the value."""
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
    # YAML takes yes, no, on, off, 12 and 2020-01-01 without quotes for something else.
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
