"""How a party's rows become people, in print: at home only."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from opboost_ops.cli.printing import plain, table

#: Most numbers of rows that are printed.
_NUMBERED = 10


def print_people(
    party: str, purpose: str, rules: Sequence[str], found: Mapping[str, Any], console: Console
) -> None:
    """Print how many values each rule changes, and which rows have one ID.

    Args:
        party: Whose table it is.
        purpose: Which of its tables.
        rules: Of the federation's IDs, in order.
        found: As `stages.people.write_ids` says.
        console: Where.
    """
    whose = f"the {purpose} table of {party}"
    if "changed" in found:
        console.print(
            f"What the rules of the ID change in {whose} (stays at home):", soft_wrap=True
        )
        shown = table("", "column", *rules, "without a value")
        for part, changed in found["changed"].items():
            counts = [f"{changed.get(rule, 0):,}" for rule in rules]
            shown.add_row(plain(part), *counts, f"{found['missing'].get(part, 0):,}")
        console.print(shown)
        repeated, numbers = found["repeated"], found["repeated_rows"][:_NUMBERED]
        more = ", ..." if repeated > len(numbers) else ""
        rows = f" (rows {', '.join(map(str, numbers))}{more})" if numbers else ""
        console.print(
            f"Of {found['rows']:,} rows of {whose} {repeated:,} have an ID that another row has, "
            f"too{rows}; {found['several_spellings']:,} IDs are written in several ways.",
            soft_wrap=True,
        )
    if "people" in found:
        console.print(
            f"Aggregates make {found['people']:,} people of {found['rows']:,} rows of {whose}.",
            soft_wrap=True,
        )
