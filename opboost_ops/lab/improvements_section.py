"""The report's section on what knowing the channel does for accuracy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.lab.accuracy import name_of
from opboost_ops.lab.markdown import spread, table


def section(found: Mapping[str, Any], folder: Path) -> str:  # noqa: ARG001 (has none)
    """The section.

    Args:
        found: What `improvements.experiment` gave.
        folder: Folder of the report's pictures.
    """
    rows = found["rows"]
    parts = [
        f"""## Beyond the paper, at the same loss

The channel is public and exact, so more can be done with it than to train on what it gave. Both
ways below leave every release, and so every loss, as it is. {found["trees"]} trees of depth
{found["depth"]}, learning rate {found["rate"]:g}, [1, 10], {rows[0]["seeds"]} seeds; LightGBM;
accuracy (adult, pendigits) or mean squared error (powerplant, casp) on clear rows, which is what
routed and local scoring meet. *Better in* counts seeds on the same split and draw."""
    ]
    for variant, words in (
        (
            "redrawn",
            "**Values drawn back** (`training: {redraw: true}`): before it trains, the label "
            "holder replaces each released cell by a draw from the law of the value behind it, "
            "given the release, the label and what the other columns say (`redraw.py`). That is "
            "post-processing of releases. The model is then one for clear rows, so it is "
            "for routed and local scoring; desensitised rows are as noisy as plain training "
            "expects them.",
        ),
        (
            "penalised",
            "**Penalty**: lambda on leaf values equal to the channel's noise-to-signal ratio "
            "E[Var(Y | x)] / Var(E[Y | x]) over an even domain.",
        ),
    ):
        here = [row for row in rows if row["variant"] == variant]
        heads = ("table", "map", "method", "epsilon", "plain", variant, "better in")
        lines = [
            (
                row["dataset"],
                row["scale"],
                name_of(row),
                f"{row['epsilon']:g}",
                _figure(row, "plain"),
                _figure(row, "value"),
                f"{row['better']} of {row['seeds']}",
            )
            for row in here
        ]
        worse = sorted(
            {f"{row['dataset']} at {row['epsilon']:g}" for row in here if row["gain"] < 0}
        )
        told = (
            f"Better on the mean in {sum(row['gain'] > 0 for row in here)} of {len(here)} "
            "settings; "
            f"worse in some of {', '.join(worse) or 'none'}."
        )
        parts += [words, told, table(heads, lines)]
    return "\n\n".join(parts) + "\n"


def _figure(row: Mapping[str, Any], name: str) -> str:
    return spread(row, name, 4 if row[name] < 1 else 2)
