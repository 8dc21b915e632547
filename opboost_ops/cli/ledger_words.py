"""A party's ledger in JSON and in print."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from rich.table import Table

from opboost_ops.cli.printing import console as wide
from opboost_ops.config.policy import AllFeatures, ModelBudget
from opboost_ops.display.terminal import rich_table
from opboost_ops.privacy.accountant import total
from opboost_ops.privacy.budgets import Forecast
from opboost_ops.privacy.model_account import ModelAccount
from opboost_ops.privacy.people import People
from opboost_ops.views.ledger_tables import columns_table

#: Of a column's line in CSV, in their order.
COLUMN_FIELDS = (
    "column",
    "feature",
    "mechanism",
    "releases",
    "loss_1",
    "loss_whole",
    "budget_1",
    "budget_whole",
    "retrainings_left",
    "lasts",
    "frozen",
    "max_changes",
    "worst_values",
    "end_loss_1",
    "end_loss_whole",
    "least_cell_width",
)


def column_entry(uuid: UUID, found: Forecast) -> dict[str, Any]:
    """A column, as JSON.

    Args:
        uuid: The column's UUID.
        found: What it cost, and what is left.
    """
    account = found.account
    return {
        "column": str(uuid),
        "feature": found.feature,
        "releases": account.releases,
        "loss_1": plain(account.step),
        "loss_whole": plain(account.whole),
        "budget_1": found.rule.budget_1,
        "budget_whole": found.rule.budget_whole,
        "retrainings_left": found.retrainings,
        "lasts": found.lasts,
        "frozen": found.frozen,
        "max_changes": found.rule.max_changes,
        "worst_values": sum(key.worst.values for key in account.keys.values() if not key.bit),
        "end_loss_1": None if found.step is None else plain(found.step),
        "end_loss_whole": None if found.whole is None else plain(found.whole),
        "least_cell_width": account.least_cell,
    }


def models_words(
    account: ModelAccount, budget: ModelBudget | None, more: int | None
) -> Iterator[str]:
    """What private models have cost together, in print; nothing where there are none.

    Args:
        account: What they have cost.
        budget: The policy's.
        more: How many more models like the last one it allows; None without an end.
    """
    if not account.sum_epsilon:
        return
    at = f" at delta {account.delta:g}" if account.delta else ""
    models = "1 model" if account.trainings == 1 else f"{account.trainings:,} models"
    deltas = f", delta {account.sum_delta:g}" if account.sum_delta else ""
    yield f"Models: {models}; the sum is epsilon {float(account.sum_epsilon):g}{deltas}."
    yield (
        f"Composed: epsilon {float(account.epsilon):g}{at} for a row added or removed, "
        f"{account.replaced:g}{at} for a row replaced."
    )
    if budget is not None:
        left = "unlimited" if more is None else f"{more:,}"
        yield f"Budget: epsilon {budget.epsilon:g}{at}; more models like the last one: {left}."


def both_readings(forecasts: dict[UUID, Forecast]) -> dict[str, Any]:
    """A person's loss, summed over features, and FederBoost's reading of it by single elements.

    Args:
        forecasts: By column.
    """
    ends = [(f.account.step, f.account.whole) for f in forecasts.values()]
    steps, wholes = [step for step, _ in ends], [whole for _, whole in ends]
    return {
        "person": {"loss_1": plain(total(steps)), "loss_whole": plain(total(wholes))},
        "element": {
            "loss_1": plain(max(steps, default=0)),
            "loss_whole": plain(max(wholes, default=0)),
        },
    }


def people_entry(found: People) -> dict[str, Any]:
    """What cells have released, as JSON.

    Args:
        found: Of all columns.
    """
    return {
        "loss_1": plain(found.step),
        "loss_whole": plain(found.whole),
        "columns": [
            {
                "feature": column.feature,
                "people": column.people,
                "most_changes": column.changes,
                "share_at_cap": column.at_cap,
                "loss_1": plain(column.step),
                "loss_whole": plain(column.whole),
            }
            for column in found.columns
        ],
    }


def plain(value: Any) -> float | str:
    """A loss, as JSON has it."""
    return "inf" if value == float("inf") else float(value)


def print_statement(
    party: str,
    forecasts: dict[UUID, Forecast],
    words: dict[UUID, str],
    exact: list[dict[str, Any]],
    inside: People | None,
    caps: AllFeatures,
) -> None:
    """Print a party's statement.

    Args:
        party: Whose.
        forecasts: By column.
        words: How each column is protected.
        exact: What has no epsilon.
        inside: What cells have released, if that is asked for.
        caps: Of the policy, on the sum over all features.
    """
    console = wide()
    shown = columns_table(forecasts, caps)
    console.print(rich_table(replace(shown, title=f"{party}: {shown.title.lower()}")))
    for found in forecasts.values():
        if found.whole is not None and found.frozen:
            console.print(f"{found.feature}: no further draw costs anything under its cap.")
        elif found.whole is not None:
            end = in_words(plain(found.whole))
            console.print(f"{found.feature}: under its cap loss(R-L) ends at {end}.")
        else:
            console.print(f"{found.feature}: no max_changes, so every new draw costs more.")
    for uuid, found in forecasts.items():
        console.print(f"{found.feature}: {words.get(uuid, 'no randomised value was released')}.")
    readings = both_readings(forecasts)
    for name, whose in (("person", "A person, all features"), ("element", "A single element")):
        one = readings[name]
        console.print(
            f"{whose}: loss(1) {in_words(one['loss_1'])}, loss(R-L) {in_words(one['loss_whole'])}."
        )
    if inside is not None:
        table = Table(title="Inside: what cells have released; keep it at home")
        for head in (
            "feature",
            "people",
            "most values of a cell",
            "at their cap",
            "loss(1)",
            "loss(R-L)",
        ):
            table.add_column(head)
        for column in people_entry(inside)["columns"]:
            sums = (in_words(column["loss_1"]), in_words(column["loss_whole"]))
            share = column["share_at_cap"]
            capped = "no cap" if share is None else f"{share:.1%}"
            counts = (str(column["people"]), str(column["most_changes"]), capped)
            table.add_row(column["feature"], *counts, *sums)
        console.print(table)
        ends = (in_words(plain(inside.step)), in_words(plain(inside.whole)))
        console.print(f"The person charged most: loss(1) {ends[0]}, loss(R-L) {ends[1]}.")
    console.print("Exact, no epsilon:")
    for line in exact:
        console.print(
            f"  {line['times']} x {line['kind']} to {line['receiver']}: {line['discloses']}"
        )


def in_words(value: float | str) -> str:
    """A loss, for people."""
    return value if isinstance(value, str) else f"{value:.3f}"
