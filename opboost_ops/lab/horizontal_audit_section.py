"""The report's section about the audit of private horizontal sessions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def section(found: Mapping[str, Any], folder: Path) -> str:  # noqa: ARG001
    """Markdown; there is no picture.

    Args:
        found: What `opboost evaluate horizontal-audit` gave.
        folder: Where pictures go.
    """
    gone = found["parties"] - found["remain"]
    return "\n".join(
        [
            "## Horizontal sessions, audited",
            "",
            f"Whole sessions as a black box on a tiny table: {found['parties']} parties, of which "
            f"{found['remain']} remain, {gone} dropped out and {found['colluding']} pooling what "
            "they know. Whoever attacks says of each session whether the row was in it; the bound "
            "is of Clopper and Pearson, at 95 %. Noise is drawn anew, so another run gives another "
            "one.",
            "",
            "| sessions with the row, and without | said to be there, with it | without it | "
            "epsilon, lower bound | declared | delta |",
            "| --- | --- | --- | --- | --- | --- |",
            f"| {found['runs']:,} | {found['said_when_there']:,} | {found['said_when_not']:,} | "
            f"{found['lower_bound']:.3f} | {found['epsilon']:.3f} | {found['delta']:g} |",
            "",
        ]
    )
