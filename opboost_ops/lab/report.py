"""The report: every experiment's committed summary, as text and pictures."""

import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from opboost_ops.errors import ConfigError
from opboost_ops.lab import denoise_section

#: Module and function of each section, by the name of its summary, in the order of the report.
SECTIONS: Mapping[str, tuple[str, str]] = {
    "federation": ("federation", "section"),
    "accuracy": ("accuracy_section", "section"),
    "accuracy-curves": ("accuracy_section", "curves_section"),
    "denoise": ("denoise_section", "section"),
    "tuning": ("tuning_section", "section"),
    "improvements": ("improvements_section", "section"),
    "order": ("order_section", "section"),
    "range-query": ("range_query_section", "section"),
    "privacy": ("privacy_section", "section"),
    "cost": ("cost_section", "section"),
    "horizontal": ("horizontal_section", "section"),
    "horizontal-private": ("horizontal_private_section", "section"),
    "horizontal-audit": ("horizontal_audit_section", "section"),
    "dpboost": ("dpboost_section", "section"),
    "federboost": ("federboost_section", "section"),
}

_HEAD = """# Evaluation

For: a data scientist who compares it with the papers.

{worst}The papers' workloads on their own tables, by one command each, with the papers' figures
beside ours where they are known. Each section is written from a summary in `docs/evaluation/`, and
the command above it makes that summary; `opboost evaluate report` writes this page and its
pictures again. Single measurements are kept in `runs/evaluation`, so an interrupted command goes
on. Tables come from `OPBOOST_DATASETS` (`opboost datasets list` says what they are).
"""

_QUOTE = re.compile(r"(<!-- evaluation: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write(docs: Path, readme: Path) -> list[Path]:
    """Write the report, its pictures, and what the README quotes of it.

    Args:
        docs: Folder of the documents; summaries are in its folder ``evaluation``.
        readme: The README, with a comment ``evaluation: NAME`` before each quotation, and ``end``
            after it.

    Returns:
        The written texts.

    Raises:
        ConfigError: There is no summary, or the README quotes one that is missing.
    """
    summaries = read(docs / "evaluation")
    worst = f"{denoise_section.worst(found)}\n\n" if (found := summaries.get("denoise")) else ""
    pages = [_HEAD.format(worst=worst)]
    for name, found in summaries.items():
        text = _function(*SECTIONS[name])(found, docs / "figures").strip()
        head, _, rest = text.partition("\n")
        pages.append(f"{head}\n\n```console\n$ {found['command']}\n```\n{rest}\n")
    (docs / "evaluation.md").write_text("\n".join(pages), encoding="utf-8")
    text = quoting(readme.read_text(encoding="utf-8"), summaries)
    readme.write_text(text, encoding="utf-8")
    return [docs / "evaluation.md", readme]


def read(folder: Path) -> dict[str, Any]:
    """All summaries that are there, by name, in the report's order.

    Args:
        folder: Where they are.

    Raises:
        ConfigError: There is none.
    """
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    found = {n: json.loads(p.read_text("utf-8")) for n, p in files.items() if p.is_file()}
    if not found:
        raise ConfigError(
            f"There is no summary in {folder}.",
            "Make one, for example: opboost evaluate accuracy --summary "
            f"{folder / 'accuracy.json'}.",
        )
    return found


def quoting(text: str, summaries: Mapping[str, Any]) -> str:
    """A text with its quotations written again.

    Args:
        text: A document.
        summaries: By name.

    Raises:
        ConfigError: A quotation is of no summary.
    """

    def quotation(match: re.Match[str]) -> str:
        name = match[2]
        if name not in summaries:
            raise ConfigError(f"{name} is quoted, and there is no summary of it.")
        return f"{match[1]}{_function(SECTIONS[name][0], 'quoted')(summaries[name])}\n{match[3]}"

    return _QUOTE.sub(quotation, text)


def _function(module: str, function: str) -> Callable[..., str]:
    found: Callable[..., str] = getattr(import_module(f"opboost_ops.lab.{module}"), function)
    return found
