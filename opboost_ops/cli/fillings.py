"""How columns fill their domains, in print: at home only."""

from collections.abc import Sequence

from rich.console import Console

from opboost_ops.cli.printing import table
from opboost_ops.display.terminal import plain
from opboost_ops.quality.domain_filling import Filling


def print_fillings(party: str, found: Sequence[Filling], console: Console) -> None:
    """Print a small histogram of each column, and what is wrong with its scale.

    Args:
        party: Whose columns they are.
        found: How they fill their domains.
        console: Where.
    """
    if not found:
        return
    title = f"How the rows of {party} fill the domain (stays at home)"
    shown = table(title, "feature", "scale", "lowest to highest value", "95 % of rows in")
    for one in found:
        values = f"{one.holding} of {len(one.counts)} values"
        shown.add_row(plain(one.feature), one.scale, f"|{one.histogram}|", values)
    console.print(shown)
    for one in found:
        if one.warning:
            console.print(plain(one.warning, "yellow"), soft_wrap=True)
