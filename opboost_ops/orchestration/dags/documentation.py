"""Documentation of a federation's DAG in Airflow's UI."""

from collections.abc import Sequence

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.pipeline.phases import phases

_FORMS: dict[Purpose, str] = {
    "train": (
        "An empty field of the trigger form keeps the declared value. A value for epsilon "
        "applies to "
        "every protected feature; a party's own policy may refuse it."
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


def documentation(
    federation: Federation, purpose: Purpose, here: Sequence[str] | None = None
) -> str:
    """The page of a DAG, in Markdown.

    Args:
        federation: What its file says.
        purpose: What its runs are for.
        here: The parties of this Airflow; all when absent.
    """
    holder = federation.label_holder
    horizontal = federation.learning == "horizontal"
    form = _horizontal_form(holder, purpose) if horizontal else _FORMS[purpose]
    apart = []
    if here is not None:
        others = ", ".join(name for name in federation.parties if name not in here)
        apart = [
            f"**This Airflow runs only the tasks of {', '.join(here)}.** {others} "
            "run theirs in another Airflow; parties exchange artifacts through the store.",
            "",
        ]
        if holder not in here:
            form = (
                f"{holder} opens the runs, by its own schedule or form; `{federation.name}_join` "
                "starts the tasks of this Airflow."
            )
    page = _horizontal(federation) if horizontal else _vertical(federation)
    return "\n".join([*apart, *page, "", *_steps(federation, purpose), "", form])


def _steps(federation: Federation, purpose: Purpose) -> list[str]:
    """The run phase by phase, as it is declared, and all artifacts that pass between parties."""
    lines = ["What a run does, phase by phase:", ""]
    kinds = ["plan"]
    for number, phase in enumerate(phases(federation, purpose), start=1):
        who = ", ".join(phase.parties(federation))
        kinds += [kind for kind in phase.awaits if kind not in kinds]
        lines.append(f"{number}. {who}: **{phase.title}**. {phase.does}")
    if federation.learning == "vertical":
        named = ", ".join(f"`{kind}`" for kind in kinds)
        lines += ["", f"Signed artifacts that pass between parties: {named}."]
    return lines


def _vertical(federation: Federation) -> list[str]:
    domain = federation.domain
    released = (
        "feature holders randomise theirs at home and publish each person's row sealed; the label "
        "holder opens the rows of people that it queries and that all parties have."
    )
    summary = (
        f"**{federation.name}** trains a gradient-boosted tree model on columns of "
        f"{len(federation.parties)} parties. No party shows its columns to another: {released}"
    )
    lines = [
        summary,
        "",
        f"Domain of protected features without one of their own: [{domain.lower}, {domain.upper}].",
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
        f"Domain of features without one of their own: [{domain.lower}, {domain.upper}].",
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
