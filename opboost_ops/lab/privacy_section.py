"""The report's section on attacks and accuracy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.lab import pictures
from opboost_ops.lab.accuracy import name_of

_NONE = ("raw", "alone")


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, and its pictures.

    Args:
        found: As `privacy.experiment` gives it.
        folder: Where the pictures go.

    Returns:
        Markdown.
    """
    _trade_off(found, folder / "evaluation-privacy.svg")
    _equal(found, folder / "evaluation-privacy-equal-loss.svg")
    seeds = sorted({line["seeds"] for line in found["rows"]})
    lower, upper = found["domain"]
    return "\n".join(
        [
            "## Attacks beside accuracy",
            "",
            f"Domain [{lower}, {upper}], LightGBM, {found['trees']} trees of depth "
            f"{found['depth']}, linear map, mean of {' to '.join(map(str, seeds))} seeds, tested "
            "on unrandomised rows. Accuracy is a share of that without protection on the same "
            "split (in regression MSE without by MSE with). The attacker knows mechanism, epsilon "
            "and the exact distribution of each column, and a guess is right if it is the very "
            "value; shares are means over the protected columns. Made by "
            f"`{found['command']}`.",
            "",
            "![Success of guessing against accuracy, a line a mechanism](figures/"
            "evaluation-privacy.svg)",
            "",
            "Left and high is good. The vertical line is who guesses the most frequent value "
            "without seeing anything.",
            "",
            *_table(found["rows"]),
            "",
            f"Guessing is from one release. Averaging is over {found['draws']} independent "
            f"releases, on {found['averaging_rows']:,} rows: keyed noise does not give them, "
            "receivers that pool their artifacts have them. `correlated` knows the most correlated "
            "other column in clear; beside it in brackets that column alone.",
            "",
            "### At equal measured loss",
            "",
            "loss(1) is for two neighbouring values, loss(R - L) for the two farthest, both exact "
            "for the very channel that is sampled. Between two measured epsilons accuracy is taken "
            "linearly in the logarithm of the loss. **Local-map has no point here**: it shows its "
            "partition exactly, which is an infinite loss.",
            "",
            "![Accuracy against both losses](figures/evaluation-privacy-equal-loss.svg)",
            "",
            *_equal_table(found["equal_loss"], _names(found)),
        ]
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    heads = ["dataset", "method", "epsilon", "loss(1)", "loss(R - L)", "guess", "worst column"]
    heads += ["by rank", "correlated", "averaged", "accuracy"]
    shown = [_row(heads), _row(["---"] * len(heads))]
    chosen = (0.08, 0.32, 1.28, 5.12)
    for line in rows:
        if line["method"] == "raw" or (line["method"] != "alone" and line["epsilon"] not in chosen):
            continue
        protected = line["method"] != "alone"
        correlated = "-"
        if line["correlated"] is not None:
            correlated = f"{line['correlated']:.3f} ({line['correlated_baseline']:.3f})"
        infinite = "infinite" if protected else "0"
        shown.append(
            _row(
                [
                    line["dataset"],
                    name_of(line),
                    f"{line['epsilon']:g}" if protected else "-",
                    *(
                        infinite if line[loss] is None else f"{line[loss]:.3f}"
                        for loss in ("loss_one", "loss_whole")
                    ),
                    f"{line['guess']:.3f} ± {line['guess_sd']:.3f}",
                    f"{line['guess_worst']:.3f}",
                    f"{line['rank_match']:.3f}",
                    correlated,
                    f"{line['averaged']:.3f}",
                    f"{line['ratio']:.3f} ± {line['ratio_sd']:.3f}",
                ]
            )
        )
    return shown


def _equal_table(lines: Sequence[Mapping[str, Any]], order: Sequence[str]) -> list[str]:
    names = [name for name in order if any(name in line["ratios"] for line in lines)]
    shown = [_row(["dataset", "loss", "at", *names]), _row(["---"] * (3 + len(names)))]
    words = {"loss_one": "loss(1)", "loss_whole": "loss(R - L)"}
    for line in lines:
        cells = []
        for name in names:
            ratio = line["ratios"].get(name)
            text = "-" if ratio is None else f"{ratio:.3f}"
            cells.append(f"**{text}** ± {line['spread']:.3f}" if name == line["best"] else text)
        shown.append(_row([line["dataset"], words[line["loss"]], f"{line['at']:g}", *cells]))
    return shown


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _trade_off(found: Mapping[str, Any], path: Path) -> None:
    names = list(dict.fromkeys(line["dataset"] for line in found["rows"]))
    figure, plots = pictures.canvas(columns=len(names))
    for plot, dataset in zip(plots, names, strict=True):
        mine = [line for line in found["rows"] if line["dataset"] == dataset]
        _curves(plot, mine, _names(found), "guess")
        blind = next(line["baseline"] for line in mine if line["baseline"] is not None)
        plot.axvline(blind, linestyle=":", color=pictures.COLOURS[3])
        pictures.name_axes(plot, dataset, "share of cells guessed right", "accuracy, 1 is raw")
    pictures.legend(plots[0])
    pictures.save(figure, path)


def _equal(found: Mapping[str, Any], path: Path) -> None:
    names = list(dict.fromkeys(line["dataset"] for line in found["rows"]))
    figure, plots = pictures.canvas(columns=len(names), rows=2)
    kinds = (("loss_one", "loss(1)"), ("loss_whole", "loss(R - L)"))
    for i, (loss, words) in enumerate(kinds):
        for plot, dataset in zip(plots[i * len(names) :], names, strict=False):
            mine = [x for x in found["rows"] if x["dataset"] == dataset and x[loss] is not None]
            _curves(plot, mine, _names(found), loss)
            plot.set_xscale("log")
            pictures.name_axes(plot, dataset, words, "accuracy, 1 is raw")
    pictures.legend(plots[0])
    pictures.save(figure, path)


def _names(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name_of(x) for x in found["rows"] if x["method"] not in _NONE))


def _curves(
    plot: Any,
    lines: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    x: str,
) -> None:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["method"] not in _NONE:
            groups.setdefault(name_of(line), []).append(line)
    for name, points in groups.items():
        ordered = sorted(points, key=lambda line: line["epsilon"])
        # The same colour and mark in every plot.
        place = names.index(name)
        plot.errorbar(
            np.array([line[x] for line in ordered]),
            np.array([line["ratio"] for line in ordered]),
            yerr=np.array([line["ratio_sd"] for line in ordered]),
            label=name,
            color=pictures.COLOURS[place % len(pictures.COLOURS)],
            marker=pictures.MARKERS[(place + place // len(pictures.COLOURS)) % 6],
            markersize=3.5,
            linestyle="-" if place < len(pictures.COLOURS) else "--",
            linewidth=1.2,
            elinewidth=0.6,
        )
