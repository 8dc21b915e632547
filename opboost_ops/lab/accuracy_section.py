"""The report's section on accuracy: OpBoost's Table 6, and its figures' curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from opboost_ops.lab import pictures
from opboost_ops.lab.accuracy import QUANTILE_TABLES, name_of
from opboost_ops.lab.markdown import spread, table

#: Cells of the paper's Table 6 that were at hand; at an epsilon of None it was not known which of
#: the three columns they stand in. Local-map hardly depends on it.
PAPER: tuple[dict[str, Any], ...] = (
    {"dataset": "adult", "method": "global_map", "theta": 0, "epsilon": 0.08, "paper": 0.5935},
    {"dataset": "adult", "method": "local_map", "theta": 2, "epsilon": None, "paper": 0.9947},
    {"dataset": "pendigits", "method": "local_map", "theta": 2, "epsilon": None, "paper": 0.993},
    {"dataset": "pendigits", "method": "global_map", "theta": 0, "epsilon": 0.08, "paper": 0.563},
    {"dataset": "pendigits", "method": "global_map", "theta": 0, "epsilon": 1.28, "paper": 0.938},
    {"dataset": "casp", "method": "local_map", "theta": 4, "epsilon": None, "paper": 0.8187},
    {"dataset": "casp", "method": "global_map", "theta": 0, "epsilon": 1.28, "paper": 0.828},
)

_WORDS = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}
_MAPS = {
    "linear": "the linear map of declared bounds",
    "quantile": (
        "an equal-frequency map, its edges read off the training rows: no guarantee, only to "
        "compare with the paper"
    ),
}


def section(found: Mapping[str, Any], folder: Path) -> str:  # noqa: ARG001 (has none)
    """The section on Table 6.

    Args:
        found: What `accuracy.experiment` gave.
        folder: Folder of the report's pictures.
    """
    rows = found["rows"]
    epsilons = sorted({row["epsilon"] for row in rows} - {0.0})
    parts = [
        f"""## Accuracy: Table 6

{_about(found)} Each cell is the ratio to training without protection on the same split, as in the
paper: accuracy over accuracy, in regression MSE without over MSE with; mean and standard deviation
over seeds. Models are tested on unrandomised rows (mode clear). Nominal epsilons of different
mechanisms are not the same guarantee: see the section on privacy for equal measured losses, and
[the guarantee](guarantee.md) for loss curves."""
    ]
    for scale in ("linear", "quantile"):
        here = [row for row in rows if row["scale"] == scale]
        tables = sorted({row["dataset"] for row in here})
        heads = ["method", *(f"{t}, {e:g}" for t in tables for e in epsilons)]
        names = list(dict.fromkeys(name_of(row) for row in here))
        cells = {(name_of(r), r["dataset"], r["epsilon"]): r for r in here}
        lines = []
        for name in names:
            own = [
                cells.get((name, t, e)) or cells.get((name, t, 0.0))
                for t in tables
                for e in epsilons
            ]
            lines.append((name, *(spread(line, "ratio", 3) if line else "" for line in own)))
        parts.append(f"With {_MAPS[scale]}:\n\n{table(heads, lines)}")
    parts.append(_beside_the_paper(rows, epsilons))
    return "\n\n".join(parts) + "\n"


def quoted(found: Mapping[str, Any]) -> str:
    """What other texts quote: cells beside the paper's."""
    epsilons = sorted({row["epsilon"] for row in found["rows"]} - {0.0})
    return _beside_the_paper(found["rows"], epsilons)


def _about(found: Mapping[str, Any]) -> str:
    rows = found["rows"]
    trainer = " and ".join(_WORDS[name] for name in sorted({row["trainer"] for row in rows}))
    return (
        f"{trainer}, {found['trees']} trees of depth {found['depth']}, learning rate "
        f"{found['rate']:g}, B's columns on [1, 10], {rows[0]['seeds']} seeds of split and noise, "
        "20 % held out (pendigits: the official split)."
    )


def _beside_the_paper(rows: Sequence[Mapping[str, Any]], epsilons: Sequence[float]) -> str:
    lines, better = [], []
    for cell in PAPER:
        scale = "quantile" if cell["dataset"] in QUANTILE_TABLES else "linear"
        wanted = [cell["epsilon"]] if cell["epsilon"] else epsilons
        same = {"scale": scale} | {k: cell[k] for k in ("dataset", "method", "theta")}
        ours = [
            row
            for row in rows
            if row["epsilon"] in wanted and all(row[k] == v for k, v in same.items())
        ]
        if not ours:
            continue
        figures = [row["ratio"] for row in ours]
        better.append(fmean(figures) - cell["paper"])
        at = f"{cell['epsilon']:g}" if cell["epsilon"] else "not known; ours at all three"
        lines.append(
            (
                cell["dataset"],
                scale,
                name_of({"alpha": 0.0, **cell}),
                at,
                f"{cell['paper']:.4g}",
                ", ".join(spread(row, "ratio", 3) for row in ours),
                f"{better[-1]:+.3f}",
            )
        )
    if not lines:
        return "None of the paper's cells that were at hand was measured."
    heads = ("table", "map", "method", "epsilon", "paper", "ours", "difference")
    return (
        "The paper's cells that were at hand, beside ours; mean difference "
        f"{fmean(better):+.3f}. The other cells of its Table 6 are not known here.\n\n"
        + table(heads, lines)
    )


def curves_section(found: Mapping[str, Any], folder: Path) -> str:
    """The section on Figures 7 to 9 and 13: ratios over epsilon.

    Args:
        found: What `accuracy.experiment` gave.
        folder: Folder of the report's pictures.
    """
    rows = [row for row in found["rows"] if row["scale"] == "linear"]
    parts = [f"## Accuracy over epsilon: Figures 7, 8, 9 and 13\n\n{_about(found)} The linear map."]
    for name in dict.fromkeys(row["dataset"] for row in rows):
        here = [row for row in rows if row["dataset"] == name]
        epsilons = sorted({row["epsilon"] for row in here} - {0.0})
        figure, plots = pictures.canvas(columns=2)
        for plot, theta in zip(plots, (2, 4), strict=True):
            curves: dict[str, list[float]] = {}
            for row in here:
                if row["theta"] in (0, theta) and row["method"] not in ("raw", "alone"):
                    label = name_of({**row, "theta": 0})
                    curves.setdefault(label, []).append(row["ratio"])
            (alone,) = (row["ratio"] for row in here if row["method"] == "alone")
            plot.axhline(alone, linestyle=":", color=pictures.COLOURS[3])
            pictures.lines(plot, epsilons, curves)
            plot.set_xscale("log")
            title = f"{name}, theta {theta} (dotted: label holder alone)"
            pictures.name_axes(plot, title, "epsilon", "ratio to no protection")
        file = f"evaluation-accuracy-{name}.svg"
        pictures.save(figure, folder / file)
        deviations = [row["ratio_sd"] for row in here]
        parts.append(
            f"![{name}: accuracy over epsilon](figures/{file})\n\n"
            f"{name}: standard deviations over seeds are at most {max(deviations):.3f}, "
            f"{fmean(deviations):.3f} on average."
        )
    return "\n\n".join(parts) + "\n"
