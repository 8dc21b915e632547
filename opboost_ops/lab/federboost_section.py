"""FederBoost's section of the report, and the picture of its Figure 3."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opboost_ops.lab import pictures
from opboost_ops.lab.federboost import PAPER_BUCKETS, PAPER_EPSILON

_PICTURE = "evaluation-federboost.svg"

Line = Mapping[str, Any]


def section(found: Mapping[str, Any], folder: Path) -> str:
    """Markdown of the result, and its picture.

    Args:
        found: What `federboost.experiment` gave, with the command that made it.
        folder: Where the picture goes.
    """
    datasets = list(dict.fromkeys(line["dataset"] for line in found["rows"]))
    draw(found, datasets, folder / _PICTURE)
    made = f"`{found['command']}`" if "command" in found else "`opboost evaluate federboost`"
    seeds = max(line["seeds"] for line in found["rows"])
    parts = [
        "## FederBoost, vertical: buckets and their noise",
        "",
        f"AUC in points of 100, mean of {seeds} seeds (splits and draws of noise) with its "
        f"standard deviation; made by {made}. {found['trees']} trees of depth "
        f"{found['depth']} (3 layers of splits, 8 leaves), learning rate {found['rate']:g} "
        "(the paper's is not known here), two thirds of the rows for training. "
        "The label holder's own features stay as they are "
        "(give_me_some_credit: age and dependents; credit_default: X2 to X5); all others are put "
        "into buckets and randomised. A missing income is a bucket of its own. Models are tested "
        "on unrandomised rows, which is what routed prediction gives. The loss is against "
        "centralised LightGBM on the same split.",
        "",
    ]
    for dataset in datasets:
        parts += _table(found, dataset)
    parts += [
        f"![Buckets and epsilon](figures/{_PICTURE})",
        "",
        "**Edges of equal counts** are quantiles of the training rows, the paper's way: equal "
        "values stay together, no bucket is empty, a value that fills several buckets has one, and "
        "the noise counts the buckets that are there. They are read off private data and **carry "
        "no guarantee**. **Declared edges** are round numbers, eight buckets at most, written into "
        "`opboost_ops/lab/federboost.py`; with them the noise is element-level local DP, "
        "per cell. They were written down with these public tables at hand, so a party that knows "
        "its field alone may do worse.",
        "",
        "**Drawn back** is ours, not the paper's: the label holder knows the channel and the "
        "labels, so it estimates the law of the buckets behind the released ones and replaces each "
        "released cell by a draw from it before it trains. That is post-processing, and costs no "
        "privacy; `training: {redraw: true}` does it in a federation. It gives most where rare "
        "values tell most; where two lines differ by less than their spread, it is not known to "
        "help, and some are worse by it.",
        "",
        "The learning rate, the way in which quantiles treat ties, and how values are drawn back "
        "were chosen by trials on the same tables, on other splits of their rows.",
        "",
    ]
    return "\n".join(parts)


def _table(found: Mapping[str, Any], dataset: str) -> list[str]:
    paper = found["paper"].get(dataset, {})
    lines = [line for line in found["rows"] if line["dataset"] == dataset]
    epsilon = PAPER_EPSILON
    chosen = [
        ("centralised", _one(lines, "centralised"), paper.get("centralised")),
        ("label holder alone", _one(lines, "alone"), None),
        (
            f"{PAPER_BUCKETS} buckets of equal counts, no noise",
            _one(lines, "equal_count", PAPER_BUCKETS),
            paper.get("buckets"),
        ),
        (
            f"the same, epsilon {epsilon:g}: the paper's configuration, no guarantee",
            _one(lines, "equal_count", PAPER_BUCKETS, epsilon),
            paper.get("epsilon_4"),
        ),
        (
            "the same, drawn back (ours), no guarantee",
            _one(lines, "equal_count", PAPER_BUCKETS, epsilon, True),
            None,
        ),
        ("declared edges, no noise", _one(lines, "declared"), None),
        *(
            (f"declared edges, epsilon {e:g}{', drawn back' * back} (ours)", line, None)
            for e in sorted({x["epsilon"] for x in lines if x["epsilon"]}, reverse=True)
            for back in (False, True)
            if (line := _one(lines, "declared", 0, e, back)) is not None
        ),
    ]
    rows = [
        f"| {name} | {line['auc']:.2f} ± {line['auc_sd']:.2f} | {line['loss']:.2f} | "
        f"{_paper(theirs, paper)} |"
        for name, line, theirs in chosen
        if line is not None
    ]
    return [
        f"**{dataset}**",
        "",
        "| | AUC | loss | paper's AUC (loss) |",
        "| --- | --- | --- | --- |",
        *rows,
        "",
    ]


def _paper(theirs: float | None, paper: Mapping[str, float]) -> str:
    return "" if theirs is None else f"{theirs:.2f} ({paper['centralised'] - theirs:.2f})"


def _one(
    lines: Sequence[Line], edges: str, q: int = 0, epsilon: float = 0.0, redrawn: bool = False
) -> Line | None:
    wanted = {"edges": edges, "buckets": q, "epsilon": epsilon, "redrawn": redrawn}
    return next((x for x in lines if all(x[k] == v for k, v in wanted.items())), None)


def draw(found: Mapping[str, Any], datasets: Sequence[str], path: Path) -> Path:
    """AUC over the number of buckets, and over epsilon: the paper's Figure 3.

    Args:
        found: What `federboost.experiment` gave.
        datasets: A row of plots each.
        path: The picture.
    """
    figure, plots = pictures.canvas(columns=2, rows=len(datasets))
    for i, dataset in enumerate(datasets):
        lines = [line for line in found["rows"] if line["dataset"] == dataset]
        buckets = sorted({x["buckets"] for x in lines if x["buckets"]})
        epsilons = sorted({x["epsilon"] for x in lines if x["epsilon"]})
        centralised = _auc(_one(lines, "centralised"))
        over_buckets = {"centralised": [centralised] * len(buckets)}
        over_buckets["no noise"] = [_auc(_one(lines, "equal_count", q)) for q in buckets]
        for e in [e for e in epsilons if e >= 1]:
            curve = [_auc(_one(lines, "equal_count", q, e)) for q in buckets]
            over_buckets[f"epsilon {e:g}"] = curve
        pictures.lines(plots[2 * i], buckets, over_buckets)
        plots[2 * i].set_xscale("log", base=2)
        plots[2 * i].set_xticks(buckets, [str(q) for q in buckets])
        pictures.name_axes(plots[2 * i], f"{dataset}, equal counts", "buckets", "AUC")
        over_epsilon = {"centralised": [centralised] * len(epsilons)}
        for name, edges, q, back in (
            (f"{PAPER_BUCKETS} of equal counts", "equal_count", PAPER_BUCKETS, False),
            ("declared edges", "declared", 0, False),
            ("declared edges, drawn back", "declared", 0, True),
        ):
            over_epsilon[name] = [_auc(_one(lines, edges, q, e, back)) for e in epsilons]
        pictures.lines(plots[2 * i + 1], epsilons, over_epsilon)
        plots[2 * i + 1].set_xscale("log", base=2)
        plots[2 * i + 1].set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        pictures.name_axes(plots[2 * i + 1], dataset, "epsilon", "AUC")
    return pictures.save(figure, path)


def _auc(line: Line | None) -> float:
    return float("nan") if line is None else float(line["auc"])
