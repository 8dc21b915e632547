"""The report's section about horizontal learning from noisy sums."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def section(found: Mapping[str, Any], folder: Path) -> str:  # noqa: ARG001
    """Markdown; there is no picture.

    Args:
        found: What `opboost evaluate horizontal-private` gave.
        folder: Where pictures go.
    """
    lines = [
        "## Horizontal learning from noisy sums",
        "",
        f"AUC in percent on a held-out third, {found['trees']} trees of {found['depth']} levels, "
        f"{found['columns']} columns a tree, learning rate {found['learning_rate']:g}, delta "
        f"{found['delta']:g}, {found['colluding']} party may collude. Mean and standard deviation "
        "over splits. `exact` is without noise, `alone` a party with its own rows, `noisy` from "
        "noisy sums, `dpboost` DPBoost on the pooled rows.",
        "",
        "| dataset | method | parties | epsilon | seeds | AUC |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        epsilon = f"{row['epsilon']:g}" if row["epsilon"] else "none"
        auc = f"{row['auc']:.2f} ± {row['auc_sd']:.2f}"
        cells = (row["dataset"], row["method"], row["parties"], epsilon, row["seeds"], auc)
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    lines += ["", f"Made by `{found['command']}`.", ""]
    return "\n".join(lines)
