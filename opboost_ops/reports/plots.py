"""Plots of models: curves on held-out rows, score distributions, and importance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Figure,
    Figures,
    Fold,
    Note,
    Table,
)
from opboost_ops.reports.display.charts import SHARES, Curve, bars, chart, colour_of

_DIAGONAL = Curve("by chance", ((0.0, 0.0), (1.0, 1.0)), dashed=True)

#: Plots by the name of their curve: title, axes, and the name of the diagonal if there is one.
_CURVES = {
    "roc": ("ROC", "false positive rate, against true positive rate", "by chance"),
    "pr": ("Precision", "recall, against precision", ""),
    "gains": ("Gains", "share of rows, against share of positives", "by chance"),
    "calibration": ("Calibration", "mean score, against share that is so", "perfect calibration"),
}

#: Smallest share with a bar, which rounds to a non-zero digit.
_MIN_SHARE = 0.0005
_MAX_FEATURES = 20

Series = Mapping[str, Any]


def held_out_figures(named: Mapping[str, Mapping[str, Any]]) -> list[Figure]:
    """Return curves of models on held-out rows, one plot per kind that all models have.

    Args:
        named: Curves as in an evaluation, by the model's name in the legend.
    """
    figures = []
    for key, (title, axes, diagonal) in _CURVES.items():
        if named and all(of.get(key) for of in named.values()):
            lines = [Curve(name, _points(of[key])) for name, of in named.items()]
            lines += [replace(_DIAGONAL, name=diagonal)] if diagonal else []
            svg = chart(lines, title=f"{title}: {axes}", x_ticks=SHARES, x_label=axes)
            figures.append(Figure(svg, title))
    if named and all(of.get("residuals") for of in named.values()):
        lines = [
            Curve(
                name,
                [(float(i), g["middle"]) for i, g in enumerate(of["residuals"], 1)],
                band=[(g["low"], g["high"]) for g in of["residuals"]],
            )
            for name, of in named.items()
        ]
        most = max(len(of["residuals"]) for of in named.values())
        ticks = [(float(i), str(i)) for i in range(1, most + 1)]
        title = "Residuals by decile of the prediction: median, and from 10 % to 90 %"
        svg = chart(lines, title=title, x_ticks=ticks, x_label="decile", from_zero=False)
        figures.append(Figure(svg, title))
    return figures


def _points(points: Sequence[Any]) -> list[tuple[float, float]]:
    return [(p["score"], p["share"]) if isinstance(p, Mapping) else (p[0], p[1]) for p in points]


def importance_figures(
    shares: Mapping[tuple[str, str], float], parties: Sequence[str]
) -> list[Figure]:
    """Return bars of importance by feature and by party, in the parties' colours.

    Args:
        shares: Shares by party and feature, in descending order.
        parties: All parties of the federation.
    """
    keys = [key for key in shares if shares[key] >= _MIN_SHARE][:_MAX_FEATURES] or [*shares][:1]
    rows = [(f"{p}.{f}", 100 * shares[p, f], colour_of(p, parties)) for p, f in keys]
    words = "by feature" if len(keys) == len(shares) else f"the first {len(keys)} of {len(shares)}"
    figures = [Figure(bars(rows, title="Importance of features", unit=" %"), words)]
    holders = [party for party in parties if any(p == party for p, _ in shares)]
    if holders:
        sums = {p: 100 * sum(s for (of, _), s in shares.items() if of == p) for p in holders}
        ordered = sorted(sums.items(), key=lambda pair: -pair[1])
        lines = [(party, share, colour_of(party, parties)) for party, share in ordered]
        title = "Importance of parties"
        figures.insert(0, Figure(bars(lines, title=title, unit=" %"), "by party"))
    return figures


def held_out_scores(evaluation: Mapping[str, Any]) -> list[Block]:
    """Return the score distribution of held-out rows by outcome, in the scoring mode.

    Args:
        evaluation: Evaluation of the version.
    """
    distributions = evaluation.get("distributions", {}).get(evaluation.get("mode"))
    if not distributions:
        return []
    shown = [series for series in distributions["series"] if series["counts"]]
    too_small = [series["name"] for series in distributions["series"] if not series["counts"]]
    if not shown:
        return []
    note = f"{_least(distributions)} In the mode of scoring."
    if too_small:
        note += f" Fewer than {distributions['least']} rows, so no picture: {', '.join(too_small)}."
    named = [(series["name"], series) for series in shown]
    return _distribution("Scores of held-out rows", "held_out_scores", named, shown, note)


def new_scores(
    runs: Sequence[tuple[str, Mapping[str, Any]]], evaluation: Mapping[str, Any]
) -> list[Block]:
    """Return the score distributions of some runs, next to the held-out rows in the same mode.

    Args:
        runs: Names and distributions of the runs, at most as many as a plot can show.
        evaluation: Evaluation of their version; empty if the version no longer exists.
    """
    named = [
        (name, {**series, "name": name}, run)
        for name, run in runs
        for series in run["series"]
        if series["counts"]
    ]
    if not named:
        return [
            Note("muted", f"Fewer than {run['least']} scores, so no picture.")
            for _, run in runs[:1]
        ]
    first = named[0][2]
    before = evaluation.get("distributions", {}).get(first.get("mode"), {}).get("series", [])
    lines = [(name, series) for name, series, _ in named]
    note = _least(first)
    if whole := pooled([s for s in before if s["counts"] and s["name"] != "true"]):
        lines.insert(0, ("held-out rows", whole))
        note += " Beside them are the version's held-out rows in the same mode."
    shown = [series for _, series, _ in named]
    return _distribution("Distribution of scores", "scores", lines, shown, note)


def pooled(parts: Sequence[Series]) -> dict[str, Any]:
    """Merge distributions, assuming that rows are evenly spread within a bin.

    Args:
        parts: Distributions with ``edges`` and ``counts``; their bins may differ.

    Returns:
        The merged distribution; empty without parts.
    """
    edges = sorted({edge for part in parts for edge in part["edges"]})
    counts = [0.0] * max(0, len(edges) - 1)
    for part in parts:
        for low, high, rows in _bins(part):
            for at, (begin, end) in enumerate(pairwise(edges)):
                if low <= begin and end <= high:
                    counts[at] += rows * (end - begin) / (high - low)
    return {"edges": edges, "counts": counts, "rows": sum(counts)} if counts else {}


def _distribution(
    title: str,
    name: str,
    lines: Sequence[tuple[str, Series]],
    shown: Sequence[Series],
    note: str,
) -> list[Block]:
    # Shares are scaled to the width of the narrowest bin.
    step = min(high - low for series in shown for low, high, _ in _bins(series))
    curves = []
    for label, series in lines:
        bins, rows = _bins(series), series["rows"]
        heights = [(low, 100 * of * step / (rows * (high - low))) for low, high, of in bins]
        low, high, most = max(bins, key=lambda bin_: bin_[2] / (bin_[1] - bin_[0]))
        words = (
            f"{label}: {rows:,.0f} rows, most from {low:,.8g} to {high:,.8g}, "
            f"{100 * most / rows:.0f} % of them"
        )
        points = [(bins[0][0], 0.0), *heights, (bins[-1][1], 0.0)]
        curves.append(Curve(label, points, steps=True, words=words))
    edges = [edge for _, series in lines for edge in series["edges"]]
    ticks = [min(edges) + part * (max(edges) - min(edges)) / 4 for part in range(5)]
    marks = [(at, f"{at:,.8g}") for at in ticks]
    svg = chart(curves, title="Distribution of scores", x_ticks=marks, x_label="score")
    cells = [
        (
            series["name"],
            Cell(f"{low:,.8g}", low),
            Cell(f"{high:,.8g}", high),
            int(of),
            Cell(f"{100 * of / series['rows']:.1f} %", of / series["rows"]),
        )
        for series in shown
        for low, high, of in _bins(series)
    ]
    table = Table(name, "Scores", ("whose", "from", "below", "rows", "share"), cells)
    figure = Figure(svg, f"% of the rows for each {step:,.8g} of the score")
    return [Figures(title, (figure,), note), Fold(f"{title}: table", (table,))]


def _bins(series: Series) -> list[tuple[float, float, float]]:
    ends = pairwise(series["edges"])
    return [(low, high, rows) for (low, high), rows in zip(ends, series["counts"], strict=True)]


def _least(distributions: Mapping[str, Any]) -> str:
    return (
        f"A bin has at least {distributions['least']} rows or none: smaller ones are merged with "
        "their neighbours, so that no bar is one person. The last bins include everything "
        "beyond the ends."
    )
