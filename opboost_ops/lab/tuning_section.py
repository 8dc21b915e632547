"""The report's section on tuning."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.lab.markdown import spread, table


def section(found: Mapping[str, Any], folder: Path) -> str:  # noqa: ARG001 (has none)
    """The section.

    Args:
        found: What `tuning.experiment` gave.
        folder: Folder of the report's pictures.
    """
    rows = found["rows"]
    seeds = found["seeds"]
    heads = ("table", "epsilon", "mode", "default", "tuned", "gain", "above, below")
    lines = [
        (
            row["dataset"],
            f"{row['epsilon']:g}",
            row["mode"],
            spread(row, "default", 4),
            spread(row, "tuned", 4),
            spread(row, "gain", 4),
            f"{row['above']}, {row['below']} of {seeds}",
        )
        for row in rows
    ]
    better = [row for row in rows if row["above"] == seeds]
    worse = [row for row in rows if row["below"] == seeds]
    trees = f"{found['trees']} trees of depth {found['depth']} at rate {found['rate']:g}"
    return f"""## Tuning on released rows

{found["trials"]} trials in {found["folds"]} folds of the training rows, beside {trees}.
At most {found["table_rows"]:,} rows of each table, drawn evenly, a fifth of them held out;
Global-map on [1, 10]; {seeds} seeds of rows, split, draw and search. AUC, or R2 (casp, powerplant),
mean and standard deviation. *Above, below* counts the seeds of which the gain's paired 95 %
interval (bootstrap of the held-out rows) lies wholly above or below zero. Trials see released rows
alone: for mode clear, which routed and local scoring meet, they are a proxy.

Above zero with every seed: {_named(better)}. Below with every seed: {_named(worse)}. Of all
{len(rows)} settings.

{table(heads, lines)}
"""


def _named(rows: list[Mapping[str, Any]]) -> str:
    named = [f"{row['dataset']} at {row['epsilon']:g} ({row['mode']})" for row in rows]
    return ", ".join(named) or "none"
