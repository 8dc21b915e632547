"""Values of a trigger form, read as strictly as the federation file that it changes."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import parse_federation
from opboost_ops.errors import ConfigError, Fault

#: What a run's trigger form may change; an empty field means as declared.
FORM: Mapping[Purpose, tuple[str, ...]] = {
    "train": ("trees", "learning_rate", "depth", "denoise", "parameters"),
    "score": ("version",),
}

#: Fields that people type as text: a browser's own field of numbers makes 1 of "1,000".
_NUMBERS: Mapping[str, Callable[[str], int | float]] = {
    "trees": int,
    "learning_rate": float,
    "depth": int,
}

#: Anybody who may trigger a run may have typed a name, which logs and terminals show.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")

_WRITTEN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def asked_for(form: Mapping[str, Any], purpose: Purpose) -> dict[str, Any]:
    """The values of a form, without its empty fields; numbers that came as text are numbers.

    Args:
        form: Values by field.
        purpose: What the run is for.

    Raises:
        ConfigError: A field that the form does not have, or text that is no number.
    """
    unknown = sorted(set(form) - set(FORM[purpose]))
    if unknown:
        shown = sorted({name if _is_name(name) else "text that is no name" for name in unknown})
        raise ConfigError(
            f"The form has unknown fields: {', '.join(shown)}.",
            f"Choose one of {', '.join(FORM[purpose])}.",
        )
    values = {name: value for name, value in form.items() if value not in (None, "")}
    # Python takes true for one: a run with a single tree would be trained, and perhaps promoted.
    if truths := sorted(name for name, value in values.items() if isinstance(value, bool)):
        raise ConfigError(
            f"The form gives true or false for {', '.join(truths)}.",
            "Give what the field asks for, or leave it empty for what is declared.",
        )
    return values | _numbers(values)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _numbers(values: Mapping[str, Any]) -> dict[str, int | float]:
    numbers: dict[str, int | float] = {}
    faults = []
    for name, kind in _NUMBERS.items():
        if not isinstance(text := values.get(name), str):
            continue
        try:
            # Python takes 1_000 for a thousand, and nan for a number.
            if not _WRITTEN.fullmatch(text.strip()):
                raise ValueError
            numbers[name] = kind(text)
        except ValueError:
            what = "whole number" if kind is int else "number"
            comma = ", with a point before decimals and nothing between thousands"
            problem = f"is not a {what}{comma if ',' in text else ''}"
            example = "100" if kind is int else "0.05"
            faults.append(
                Fault(name, problem, f"for example {example}, or nothing for as declared")
            )
    if faults:
        raise ConfigError("The trigger form cannot be read.", faults=faults)
    return numbers


def with_form(federation: Federation, form: Mapping[str, Any]) -> Federation:
    """The federation with a training form's values in it.

    Args:
        federation: As declared.
        form: Values by field; None or an empty string means as declared.

    Raises:
        ConfigError: An unknown field, or a value that the federation file may not have.
    """
    values = asked_for(form, "train")
    if not values:
        return federation
    if federation.learning == "horizontal":
        raise ConfigError(
            f"Horizontal learning takes no {', '.join(values)} from a form: all of its training "
            "decides which sums leave.",
            "Change federation.yaml, and let every party agree.",
        )
    data = federation.model_dump(mode="json")
    if "parameters" in values:
        # One more, or another value of one: what is declared beside it stays.
        own = values.pop("parameters")
        if not isinstance(own, Mapping) or not all(map(_is_name, own)):
            raise ConfigError(
                "The form's parameters are not a mapping of names to values.",
                'For example {"num_leaves": 15}.',
            )
        data["training"]["parameters"] |= own
    data["training"].update(values)
    return parse_federation(data, "the trigger form")
