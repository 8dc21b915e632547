"""Trigger forms: what is declared, what may be asked for instead, and what that costs."""

from functools import cache
from typing import Any, get_args

from airflow.sdk import Param

from opboost_ops.config.federation import Federation
from opboost_ops.config.training import AnyTraining, Denoise, Training

#: Numbers as text within their ranges, or nothing: what they refuse, the form refuses.
_WHOLE = "^ *([1-9][0-9]{0,3}|10000)? *$"
_BELOW_1 = r"0?\.[0-9]*[1-9][0-9]*|[1-9](\.[0-9]+)?[eE]-[0-9]{1,2}"


def training_form(federation: Federation) -> dict[str, Param]:
    """Fields of the form for one training run.

    Args:
        federation: What its file says.
    """
    if federation.learning == "horizontal":
        # All of its training decides which sums leave: that is agreed, and no form changes it.
        return {}
    training = federation.training
    fields = _fields(type(training))
    return {
        "trees": _number("Trees", fields["trees"], training.trees, [50, 200]),
        "learning_rate": _number(
            "Learning rate", fields["learning_rate"], training.learning_rate, [0.05, 0.3]
        ),
        "depth": Param(
            None,
            title="Depth of a tree",
            description=f"Declared: {training.depth}. Adds no epsilon to a run.",
            type=["null", "integer"],
            enum=[None, *range(fields["depth"]["minimum"], fields["depth"]["maximum"] + 1)],
            values_display={"null": f"as declared: {training.depth}"},
        ),
        "parameters": Param(
            None,
            title="Booster parameters",
            description=(
                f"Declared: {_declared_parameters(training)}. Empty: as declared. One more, or "
                'another value: {"num_leaves": 15}.'
            ),
            type=["null", "object"],
        ),
        "denoise": Param(
            None,
            title="Denoising",
            description=f"Declared: {federation.denoising}. Adds no epsilon to a run.",
            type=["null", "string"],
            enum=[None, *get_args(Denoise)],
            values_display={"null": f"as declared: {federation.denoising}"},
        ),
    }


@cache
def _fields(training: type[AnyTraining]) -> dict[str, Any]:
    return dict(training.model_json_schema()["properties"])


def scoring_form() -> dict[str, Param]:
    """Fields of the form for one scoring run."""
    return {
        "version": Param(
            None,
            title="Model version",
            description=(
                "Empty: the champion. Otherwise its 16 hexadecimal digits, as the models page "
                "shows them."
            ),
            type=["null", "string"],
            pattern="^([0-9a-f]{16})?$",
        )
    }


def _number(
    title: str, schema: dict[str, Any], declared: float, examples: list[int | float]
) -> Param:
    """A field for a number that is typed as text; Airflow's form refuses what is none.

    Its own field of numbers trains one tree where somebody types "1,000" or "-3", and as declared
    for "lots".
    """
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    limits = {name: schema[name] for name in names if name in schema}
    lowest = limits.get("minimum")
    start = f"above {limits['exclusiveMinimum']:g}" if lowest is None else f"{lowest:g}"
    highest = limits.get("maximum")
    end = f"below {limits['exclusiveMaximum']:g}" if highest is None else f"{highest:g}"
    whole = schema["type"] == "integer"
    decimal = _BELOW_1 if highest is None else rf"{_BELOW_1}|1(\.0*)?"
    form = "A whole number" if whole else "A number, with a point before decimals,"
    return Param(
        None,
        title=title,
        description=(
            f"Declared: {declared:g}. Empty: as declared. {form} from {start} to "
            f"{end}. Adds no epsilon to a run."
        ),
        type=["null", "string", schema["type"]],
        pattern=_WHOLE if whole else f"^ *({decimal})? *$",
        examples=[f"{e:g}" for e in sorted({declared, *examples})],
        **limits,
    )


def _declared_parameters(training: Training) -> str:
    text = ", ".join(f"{name} {value}" for name, value in training.parameters.items())
    return text or "none"
