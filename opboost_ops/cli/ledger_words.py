"""A party's ledger in JSON, and what is added to its page's tables at home."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from opboost_ops.display.blocks import Block, Cell, Table, count, finite, number
from opboost_ops.privacy.accountant import total
from opboost_ops.privacy.budgets import Forecast
from opboost_ops.privacy.people import People

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


def both_readings(forecasts: Mapping[UUID, Forecast]) -> dict[str, Any]:
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


def plain(value: Any) -> Any:
    """A loss, as JSON has it."""
    return finite(float(value))


def people_blocks(found: People) -> list[Block]:
    """What cells have released, for the party's own people.

    Args:
        found: Of all columns.
    """
    rows = tuple(
        (
            Cell(column.feature),
            count(column.people),
            count(column.changes),
            Cell("no cap" if column.at_cap is None else f"{column.at_cap:.1%}"),
            number(float(column.step)),
            number(float(column.whole)),
        )
        for column in found.columns
    )
    heads = ("feature", "people", "most values of a cell", "at their cap", "loss(1)", "loss(R-L)")
    most = (number(float(found.step)).text, number(float(found.whole)).text)
    note = f"The person charged most: loss(1) {most[0]}, loss(R-L) {most[1]}."
    return [Table("people", "What cells have released; keep it at home", heads, rows, note)]
