"""The report: every experiment's committed summary, as text and pictures."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers import denoise, experiments
from opboost_ops.errors import ConfigError

_HEAD = """# Evaluation

This page reproduces the papers' workloads on their own tables, with the papers' figures beside ours
where we know them. Above each section is the command that measured it. All settings, with standard
deviations, are in `docs/evaluation/*.json`; the page shows a selection.

Run a command in a checkout, with `OPBOOST_DATASETS` set to a folder of tables (`opboost datasets
list` names them). `--summary FILE` writes the summary, and `python -m benchmarks.papers report`
writes this page and its pictures. Measurements are cached in `runs/evaluation`.

{worst}"""

_QUOTE = re.compile(r"(<!-- evaluation: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write(docs: Path, readme: Path) -> list[Path]:
    """Write the report, its pictures, and what the README quotes of it.

    Args:
        docs: Folder of the documents; summaries are in its folder ``evaluation``.
        readme: The README, with a comment ``evaluation: NAME`` before each quotation, and ``end``
            after it.

    Raises:
        ConfigError: There is no summary, or the README quotes one that is missing.
    """
    summaries = read(docs / "evaluation")
    worst = f"{denoise.worst(found)}\n" if (found := summaries.get("denoise")) else ""
    pages = [_HEAD.format(worst=worst)]
    for experiment in experiments():
        if found := summaries.get(experiment.name):
            head, _, rest = experiment.section(found, docs / "figures").strip().partition("\n")
            pages.append(f"{head}\n\n```console\n$ {found['command']}\n```\n{rest}\n")
    (docs / "evaluation.md").write_text("\n".join(pages), encoding="utf-8")
    text = quoting(readme.read_text(encoding="utf-8"), summaries)
    readme.write_text(text, encoding="utf-8")
    return [docs / "evaluation.md", readme]


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


def quoting(text: str, summaries: Mapping[str, Any]) -> str:
    """A text with its quotations written again.

    Raises:
        ConfigError: A quotation is of no summary.
    """
    known = {experiment.name: experiment.quoted for experiment in experiments()}

    def quotation(match: re.Match[str]) -> str:
        name = match[2]
        quoted = known.get(name)
        if name not in summaries or quoted is None:
            raise ConfigError(f"{name} is quoted, and there is no summary of it.")
        return f"{match[1]}{quoted(summaries[name])}\n{match[3]}"

    return _QUOTE.sub(quotation, text)
