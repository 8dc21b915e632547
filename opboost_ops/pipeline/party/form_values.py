"""Values of a trigger form, parsed as strictly as the federation file that they override."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import parse_federation
from opboost_ops.errors import ConfigError, Fault

#: Fields that a run's trigger form may override; an empty field means as declared.
FORM: Mapping[Purpose, tuple[str, ...]] = {
    "train": ("trees", "learning_rate", "depth", "denoise", "parameters"),
    "score": ("version",),
}

#: Number fields that the form takes as text: a browser's number input reads "1,000" as 1.
_NUMBERS: Mapping[str, Callable[[str], int | float]] = {
    "trees": int,
    "learning_rate": float,
    "depth": int,
}

#: A plausible field name: logs and terminals show it, and anyone who may trigger runs types it.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")

_WRITTEN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def asked_for(form: Mapping[str, Any], purpose: Purpose) -> dict[str, Any]:
    """Return the non-empty values of a form, with numbers parsed from text.

    Args:
        form: Values by field.
        purpose: The run's purpose.

    Raises:
        ConfigError: A field is unknown, or its text is not a number.
    """
    unknown = sorted(set(form) - set(FORM[purpose]))
    if unknown:
        shown = sorted({name if _is_name(name) else "text that is no name" for name in unknown})
        raise ConfigError(
            f"The form has unknown fields: {', '.join(shown)}.",
            f"Choose one of {', '.join(FORM[purpose])}.",
        )
    values = {name: value for name, value in form.items() if value not in (None, "")}
    # In Python True equals 1: a model with a single tree would be trained and perhaps promoted.
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
            # Python accepts 1_000 as a thousand and parses nan.
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
    """Return the federation with a training form's values.

    Args:
        federation: The federation as declared.
        form: Values by field; None or an empty string means as declared.

    Raises:
        ConfigError: A field is unknown, or the federation file does not allow its value.
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
        # Merge: declared parameters that the form does not mention stay.
        own = values.pop("parameters")
        if not isinstance(own, Mapping) or not all(map(_is_name, own)):
            raise ConfigError(
                "The form's parameters are not a mapping of names to values.",
                'For example {"num_leaves": 15}.',
            )
        data["training"]["parameters"] |= own
    data["training"].update(values)
    return parse_federation(data, "the trigger form")
