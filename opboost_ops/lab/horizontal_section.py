"""The report's section about horizontal FederBoost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.lab import pictures
from opboost_ops.lab.horizontal import PAPER_SECONDS


def section(found: Mapping[str, Any], folder: Path) -> str:
    """Markdown, and its picture.

    Args:
        found: What `opboost evaluate horizontal` gave.
        folder: Where pictures go.
    """
    lines = [
        "## FederBoost, horizontal",
        "",
        f"AUC in percent on a held-out third, {found['trees']} trees of {found['layers']} levels "
        f"of splits, {found['buckets']} buckets, lambda {found['penalty']:g}. Mean and standard "
        "deviation over splits. Any number of parties gives to the bit what one party gives on all "
        "rows (tests), so one was measured.",
        "",
        "| dataset | missing values | learning rate | seeds | horizontal | LightGBM, same bins | "
        "difference | LightGBM, own bins | paper, horizontal | paper, centralised |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        paper = found["paper"].get(row["dataset"], {})
        cells = [row["dataset"], row["missing"], row["learning_rate"], row["seeds"]]
        cells += [
            f"{row[name]:.3f} ± {row[f'{name}_sd']:.3f}"
            for name in ("horizontal", "same_bins", "difference", "own_bins")
        ]
        cells += [paper.get(name, "not known") for name in ("horizontal", "centralised")]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    lines += ["", *_times(found), "", f"Made by `{found['command']}`.", ""]
    if found["growth"]:
        _draw(found["growth"], folder / "evaluation-horizontal.svg")
        lines += ["![Seconds by parties](figures/evaluation-horizontal.svg)", ""]
    return "\n".join(lines)


def _times(found: Mapping[str, Any]) -> list[str]:
    heads = "| parties | rows | columns | trees | levels | seconds | CPU seconds, active | CPU "
    heads += "seconds, another | bytes sent by another | LightGBM, seconds | ratio |"
    names = [
        *("parties", "rows", "columns", "trees", "layers", "seconds", "cpu_active", "cpu_others"),
        *("bytes", "lightgbm", "ratio"),
    ]
    lines = [heads, "| " + " | ".join(["---"] * len(names)) + " |"]
    for line in [*found["times"], *found["growth"]]:
        lines.append("| " + " | ".join(f"{line[name]:,}" for name in names) + " |")
    return [
        "Each party a process of one machine with two cores, over a local store; LightGBM on the "
        f"whole table in the same run. The paper: {PAPER_SECONDS} s for 3 parties, 8,192 rows of "
        "11 columns and 200 trees of 4 layers on another machine with 1 Gbit/s. Load of the "
        f"machine when this was measured: {found['load']}; seconds grow with it, CPU seconds "
        "hardly.",
        "",
        *lines,
    ]


def _draw(growth: list[Mapping[str, Any]], path: Path) -> None:
    figure, (wall, work) = pictures.canvas(2)
    parties = [line["parties"] for line in growth]
    pictures.name_axes(wall, "One tree", "parties", "seconds")
    pictures.lines(wall, parties, {"elapsed": [l["seconds"] / l["trees"] for l in growth]})  # noqa: E741
    pictures.name_axes(work, "Work for one tree", "parties", "CPU seconds")
    curves = {"active party": "cpu_active", "each other party": "cpu_others"}
    pictures.lines(
        work,
        parties,
        {name: [line[key] / line["trees"] for line in growth] for name, key in curves.items()},
    )
    pictures.save(figure, path)
