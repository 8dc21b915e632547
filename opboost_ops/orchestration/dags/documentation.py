"""Texts of the DAGs in Airflow's UI: labels, descriptions, trigger forms and documentation."""

from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

from airflow.sdk import Param

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.training import AnyTraining, Denoise, Training
from opboost_ops.pipeline.phases import phases
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.step_types import Chain

#: Description of the task that opens a run.
OPENS = (
    "Resolves federation file and trigger form and publishes the signed plan for all later tasks."
)

#: The group in which a party joins a run that was opened in another Airflow.
JOINS = ("join run", "Verifies the plan that the label holder signed in another Airflow.")

#: Tasks that exist only where each party has its own Airflow.
OWN_AIRFLOW = {
    "look_for_runs": "Polls the store for a signed plan that names this Airflow's parties, and "
    "starts their part of its run. Holds no slot between polls.",
    "join_run": "Verifies the plan with the key that the party's policy pins, and records it.",
    "wait_for": "Polls the store for input from another Airflow: {}. Holds no slot between polls.",
}

#: Patterns of numbers typed as text, within their ranges, or empty; the form rejects the rest.
_INTEGER = "^ *([1-9][0-9]{0,3}|10000)? *$"
_BELOW_1 = r"0?\.[0-9]*[1-9][0-9]*|[1-9](\.[0-9]+)?[eE]-[0-9]{1,2}"

_FORMS: dict[Purpose, str] = {
    "train": (
        "An empty field of the trigger form keeps the declared value. No field changes a "
        "column, a receiver or an epsilon."
    ),
    "score": (
        "An empty version in the trigger form means the champion. Only the label holder gets "
        "the scores."
    ),
}

_MODES = {
    "desensitised": "feature holders release randomised domain values of the new rows, which is "
    "charged to their ledgers",
    "routed": "feature holders disclose exactly, for every new row, how it compares with every "
    "threshold of the model",
    "local": "the label holder has all columns that the model uses, and nothing leaves any party",
}


def description(chain: Chain) -> str:
    """Describe a task in Markdown: one sentence per stage."""
    if len(chain.stages) == 1:
        return STEPS[chain.stages[0]].does
    return "\n".join(f"- `{stage}`: {STEPS[stage].does}" for stage in chain.stages)


def training_form(federation: Federation) -> dict[str, Param]:
    """Return the fields of the trigger form of a training run."""
    if federation.learning == "horizontal":
        # The agreement fixes all training parameters, as they decide which sums are sent.
        return {}
    training = federation.training
    fields = _training_fields(type(training))
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
                f"Declared: {_declared_parameters(training)}. Empty: as declared. An added or "
                'changed value: {"num_leaves": 15}.'
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
def _training_fields(training: type[AnyTraining]) -> dict[str, Any]:
    return dict(training.model_json_schema()["properties"])


def scoring_form() -> dict[str, Param]:
    """Return the fields of the trigger form of a scoring run."""
    return {
        "version": Param(
            None,
            title="Model version",
            description=(
                "Empty: the champion. Otherwise its 16 hexadecimal digits, as shown on the models "
                "page."
            ),
            type=["null", "string"],
            pattern="^([0-9a-f]{16})?$",
        )
    }


def _number(
    title: str, schema: dict[str, Any], declared: float, examples: list[int | float]
) -> Param:
    """Return a field for a number that is typed as text, so that the form rejects non-numbers.

    Airflow's own number field would train one tree for "1,000" or "-3", and ignore "lots".
    """
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    limits = {name: schema[name] for name in names if name in schema}
    lowest = limits.get("minimum")
    start = f"above {limits['exclusiveMinimum']:g}" if lowest is None else f"{lowest:g}"
    highest = limits.get("maximum")
    end = f"below {limits['exclusiveMaximum']:g}" if highest is None else f"{highest:g}"
    integer = schema["type"] == "integer"
    decimal = _BELOW_1 if highest is None else rf"{_BELOW_1}|1(\.0*)?"
    form = "A whole number" if integer else "A number, with a decimal point,"
    return Param(
        None,
        title=title,
        description=(
            f"Declared: {declared:g}. Empty: as declared. {form} from {start} to "
            f"{end}. Adds no epsilon to a run."
        ),
        type=["null", "string", schema["type"]],
        pattern=_INTEGER if integer else f"^ *({decimal})? *$",
        examples=[f"{e:g}" for e in sorted({declared, *examples})],
        **limits,
    )


def _declared_parameters(training: Training) -> str:
    text = ", ".join(f"{name} {value}" for name, value in training.parameters.items())
    return text or "none"


def documentation(federation: Federation, purpose: Purpose, local_parties: Sequence[str]) -> str:
    """Return a DAG's documentation, in Markdown.

    Args:
        federation: The parsed federation file.
        purpose: ``train`` or ``score``.
        local_parties: The parties whose tasks this Airflow runs.
    """
    holder = federation.label_holder
    horizontal = federation.learning == "horizontal"
    form = _horizontal_form(holder, purpose) if horizontal else _FORMS[purpose]
    apart = []
    if others := ", ".join(name for name in federation.parties if name not in local_parties):
        apart = [
            f"**This Airflow runs only the tasks of {', '.join(local_parties)}.** {others} "
            "run theirs in another Airflow; parties exchange artifacts through the store.",
            "",
        ]
        if holder not in local_parties:
            form = (
                f"{holder} opens the runs, by its own schedule or form; `{federation.name}_join` "
                "starts the tasks of this Airflow."
            )
    page = _horizontal(federation) if horizontal else _vertical(federation)
    return "\n".join([*apart, *page, "", *_steps(federation, purpose), "", form])


def _steps(federation: Federation, purpose: Purpose) -> list[str]:
    """Return a run's phases in order, and all artifacts that parties exchange."""
    lines = ["What a run does, phase by phase:", ""]
    kinds = ["plan"]
    for number, phase in enumerate(phases(federation, purpose), start=1):
        who = ", ".join(phase.parties(federation))
        kinds += [kind for kind in phase.awaits if kind not in kinds]
        lines.append(f"{number}. {who}: **{phase.title}**. {phase.does}")
    if federation.learning == "vertical":
        named = ", ".join(f"`{kind}`" for kind in kinds)
        lines += ["", f"Signed artifacts that parties exchange: {named}."]
    return lines


def _vertical(federation: Federation) -> list[str]:
    domain = federation.domain
    released = (
        "feature holders randomise them locally and publish each person's row sealed; the label "
        "holder opens the rows of the people that it queries and that "
        f"{'the party has' if federation.keeps_all else 'all parties have'}."
    )
    summary = (
        f"**{federation.name}** trains a gradient-boosted tree model on columns of "
        f"{len(federation.parties)} parties. No party discloses its columns to another: {released}"
    )
    lines = [
        summary,
        "",
        f"Domain of protected features without their own: [{domain.lower}, {domain.upper}].",
        "",
        "| party | role | feature | leaves the party as |",
        "| --- | --- | --- | --- |",
    ]
    for party, spec in federation.parties.items():
        role = spec.role.replace("_", " ")
        for name, feature in spec.features.items():
            leaves = feature.mechanism.label() if feature.mechanism else "never leaves"
            lines.append(f"| {party} | {role} | `{name}` | {leaves} |")
        if not spec.features:
            lines.append(f"| {party} | {role} | | |")
    mode = federation.scoring.mode
    scored = f"New rows are scored in mode `{mode}`: {_MODES[mode]}."
    return [*lines, "", scored, *_positive(federation)]


def _positive(federation: Federation) -> list[str]:
    label = federation.label
    if label is None or label.task != "binary":
        return []
    if label.classes:
        return ["", f"A score is the probability of the positive class, `{label.classes[1]}`."]
    return [
        "",
        "A score is the probability of the positive class: the last in order, because "
        "`label.classes` is not declared.",
    ]


def _horizontal(federation: Federation) -> list[str]:
    active, domain = federation.label_holder, federation.domain
    return [
        f"**{federation.name}** trains a gradient-boosted tree model on the rows of "
        f"{len(federation.parties)} parties, which have the same columns about different people. "
        "No party discloses its rows: each sends masked sums, and the masks cancel in the total.",
        "",
        f"All parties' `boost` tasks run at the same time and exchange signed messages. "
        f"{active} opens the runs, adds up and decides; all end with the same model.",
        "",
        f"Domain of features without their own: [{domain.lower}, {domain.upper}].",
        "",
        "| feature | type |",
        "| --- | --- |",
        *(f"| `{name}` | {feature.type} |" for name, feature in federation.shared_features.items()),
        *_positive(federation),
    ]


def _horizontal_form(active: str, purpose: Purpose) -> str:
    if purpose == "train":
        return "The trigger form has no fields: all training is agreed."
    return (
        f"An empty version in the trigger form means the champion of {active}. Every party scores "
        "its own new rows and keeps the scores."
    )
