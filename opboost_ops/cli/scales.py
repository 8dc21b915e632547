"""A column's kinds of cells side by side, as a table of the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opboost_ops.cli.printing import table

if TYPE_CHECKING:
    from rich.table import Table

    from opboost_ops.planning.scales import ScaleLine


def scale_table(name: str, lines: "Sequence[ScaleLine]") -> "Table":
    """Losses by kind of cells, at one loss of a step.

    Args:
        name: The feature.
        lines: Of `planning.scales`.
    """
    near = f"{lines[0].near:.4g}" if lines else "near"
    heads = ("cells", "edges cost", "loss(1)", f"loss at {near}", "loss(R-L)", "narrowest cell")
    kept = ("order kept",) if any(line.kept is not None for line in lines) else ()
    shown = table(f"{name}: cells at one loss(1), edges included", *heads, *kept)
    for line in lines:
        losses = (line.edges, line.loss_1, line.loss_near, line.loss_whole)
        cells = [line.cells, *(f"{loss:.3f}" for loss in losses), f"{line.narrowest:.4g}"]
        shown.add_row(*cells, *([f"{line.kept:.3f}"] if line.kept is not None else []))
    return shown
