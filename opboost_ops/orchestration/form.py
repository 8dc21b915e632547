"""Trigger forms: what is declared, what may be asked for instead, and what that costs."""

from functools import cache
from typing import Any, get_args

from airflow.sdk import Param

from opboost_ops.config.agreement import form_epsilons
from opboost_ops.config.federation import Federation
from opboost_ops.config.training import AnyTraining, Denoise, Training

#: Numbers as text within their ranges, or nothing: what they refuse, the form refuses.
_WHOLE = "^ *([1-9][0-9]{0,3}|10000)? *$"
_BELOW_1 = r"0?\.[0-9]*[1-9][0-9]*|[1-9](\.[0-9]+)?[eE]-[0-9]{1,2}"


def training_form(federation: Federation) -> dict[str, Param]:
    """What may be changed for one training run.

    Args:
        federation: What its file says.
    """
    if federation.learning == "horizontal":
        # All of its training decides which sums leave: that is agreed, and no form changes it.
        return {}
    training = federation.training
    fields = _fields(type(training))
    epsilon = _epsilon(federation)
    return {
        **({"epsilon": epsilon} if epsilon else {}),
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
    """What may be changed for one scoring run."""
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


def _epsilon(federation: Federation) -> Param | None:
    offered = form_epsilons(federation)
    if not offered:
        return None
    declared = [
        feature.mechanism.epsilon
        for party in federation.feature_holders
        for feature in federation.parties[party].features.values()
        if feature.mechanism
    ]
    features = len(declared)
    words = f"{features} feature{'s' if features != 1 else ''}"
    usual = f"as declared: {_span(declared)}, {_cost(sum(declared), words)}"
    return Param(
        None,
        title="Epsilon of all protected features",
        description=(
            f"Declared: {_span(declared)}. Offered are the epsilons that the parties have agreed "
            "on. What a run costs: each person's loss grows by about epsilon a feature, for values "
            "one step of the domain apart. Another epsilon than before is a fresh draw of every "
            "cell and is charged in full; a party's budget may refuse it. The exact loss curve of "
            "each release is on the privacy ledger's page."
        ),
        type=["null", "number"],
        enum=[None, *offered],
        values_display={
            "null": usual,
            **{_written(e): f"{e:g}: {_cost(e * features, words)}" for e in offered},
        },
    )


def _cost(whole: float, words: str) -> str:
    return f"nominal loss of a step {whole:.4g} over {words}"


def _span(found: list[float]) -> str:
    low, high = min(found), max(found)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}, by feature"


def _written(number: float) -> str:
    """A number as a browser writes it: whole ones without a point."""
    return repr(float(number)).removesuffix(".0")


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
    found = ", ".join(f"{name} {value}" for name, value in training.parameters.items())
    return found or "none"
