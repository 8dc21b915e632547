"""The report: every experiment's committed summary, as text and pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers import experiments
from opboost_ops.errors import ConfigError

#: The pages, each with its first words and its experiments, in order.
_PAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "evaluation": (
        """# Evaluation: what a federation gains

Each section begins with the command that measured it, and shows a selection: all settings, with
standard deviations, are in `docs/evaluation/*.json`. Run a command in a checkout, with
`OPBOOST_DATASETS` set to a folder of tables. `python -m
benchmarks.papers report` writes these pages.

[The papers' own workloads](reference/evaluation-papers.md), beside the papers' figures.
""",
        (
            *("federation", "price", "defaults", "denoise", "tuning"),
            *("gate", "refresh", "arena"),
        ),
    ),
    "reference/evaluation-papers": (
        """# Evaluation: the papers' own workloads, and what else was tried

OpBoost's mechanisms, FederBoost, private models and DPBoost, each by the command above it ([how to
repeat it](../evaluation.md)). Where a paper is wrong, [we differ](errata.md).
""",
        (
            *("accuracy", "accuracy-curves", "order", "table5", "range-query", "privacy"),
            *("horizontal", "horizontal-private", "horizontal-audit", "federboost"),
            *("private-audit", "dpboost", "defaults-tried"),
        ),
    ),
}


def write(docs: Path) -> list[Path]:
    """Write the pages of the report and their pictures.

    Args:
        docs: Folder of the documents; summaries are in its folder ``evaluation``.

    Raises:
        ConfigError: There is no summary.
    """
    summaries = read(docs / "evaluation")
    known = {experiment.name: experiment for experiment in experiments()}
    written = []
    for page, (head, names) in _PAGES.items():
        parts = [head]
        for name in names:
            if found := summaries.get(name):
                title, _, rest = (
                    known[name].section(found, docs / "figures").strip().partition("\n")
                )
                parts.append(f"{title}\n\n```console\n$ {found['command']}\n```\n{rest}\n")
        text = "\n".join(parts)
        if "/" in page:
            text = text.replace("](figures/", "](../figures/")
        written.append(docs / f"{page}.md")
        written[-1].parent.mkdir(exist_ok=True)
        written[-1].write_text(text, encoding="utf-8")
    return written


def read(folder: Path) -> dict[str, Any]:
    """All summaries that are there, by name.

    Raises:
        ConfigError: There is none.
    """
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    if not found:
        raise ConfigError(
            f"There is no summary in {folder}.",
            "Make one, for example: python -m benchmarks.papers accuracy --summary "
            f"{folder / 'accuracy.json'}.",
        )
    return found
