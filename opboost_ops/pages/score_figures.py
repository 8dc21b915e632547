"""How scores are distributed, in pictures: of a version's held-out rows, and of what it scored."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from opboost_ops.pages.blocks import Block, Cell, Figure, Figures, Fold, Note, Table, count
from opboost_ops.pages.pictures import Curve, chart

_CAPTION = "Distribution of scores"

Series = Mapping[str, Any]


def held_out_blocks(evaluation: Mapping[str, Any]) -> list[Block]:
    """The held-out rows' scores by what the rows are, in the mode of scoring.

    Args:
        evaluation: As the version keeps it; one of before has no distribution.
    """
    found = evaluation.get("distributions", {}).get(evaluation.get("mode"))
    if not found:
        return []
    shown = [series for series in found["series"] if series["counts"]]
    few = [series["name"] for series in found["series"] if not series["counts"]]
    told = f"{_least(found)} In the mode of scoring."
    if few:
        told += f" Of fewer than {found['least']} rows there is no picture: {', '.join(few)}."
    if not shown:
        return []
    step = _step(shown)
    figure = Figure(_drawn([(s["name"], s) for s in shown], step), _caption(step))
    return [
        Figures("Scores of held-out rows", (figure,), told),
        Fold("Scores of held-out rows as a table", (_table("held_out_scores", shown),)),
    ]


def new_scores(
    runs: Sequence[tuple[str, Mapping[str, Any]]], evaluation: Mapping[str, Any]
) -> list[Block]:
    """The scores of some runs beside those of the held-out rows in the same mode.

    Args:
        runs: Names, and what each run has kept of its scores; at most as many as a picture tells
            apart.
        evaluation: Of the version that scored them; empty where it is gone.
    """
    named = [
        (name, {**series, "name": name}, found)
        for name, found in runs
        for series in found["series"]
        if series["counts"]
    ]
    if not named:
        return [
            Note("muted", f"Of fewer than {found['least']} scores there is no picture.")
            for _, found in runs[:1]
        ]
    mode = named[0][2].get("mode")
    before = evaluation.get("distributions", {}).get(mode, {}).get("series", [])
    whole = pooled([s for s in before if s["counts"] and s["name"] != "true"])
    lines = [(name, series) for name, series, _ in named]
    if whole:
        lines.insert(0, ("held-out rows", whole))
    step = _step([series for _, series, _ in named])
    figure = Figure(_drawn(lines, step), _caption(step))
    told = _least(named[0][2])
    if whole:
        told += " Beside them are the version's held-out rows in the same mode."
    return [
        Figures(_CAPTION, (figure,), told),
        Fold("Scores as a table", (_table("scores", [series for _, series, _ in named]),)),
    ]


def pooled(parts: Sequence[Series]) -> dict[str, Any]:
    """Several distributions as one: within a bin rows are taken as evenly spread.

    Args:
        parts: With ``edges`` and ``counts``; their bins may differ.

    Returns:
        The same of all rows together; empty of none.
    """
    edges = sorted({edge for part in parts for edge in part["edges"]})
    counts = [0.0] * max(0, len(edges) - 1)
    for part in parts:
        for low, high, rows in _bins(part):
            for at, (begin, end) in enumerate(pairwise(edges)):
                if low <= begin and end <= high:
                    counts[at] += rows * (end - begin) / (high - low)
    return {"edges": edges, "counts": counts, "rows": sum(counts)} if counts else {}


def _bins(series: Series) -> list[tuple[float, float, float]]:
    ends = pairwise(series["edges"])
    return [(low, high, rows) for (low, high), rows in zip(ends, series["counts"], strict=True)]


def _step(shown: Sequence[Series]) -> float:
    """The width for which shares are drawn: that of the narrowest bin."""
    return min(high - low for series in shown for low, high, _ in _bins(series))


def _drawn(lines: Sequence[tuple[str, Series]], step: float) -> Markup:
    curves = []
    for name, series in lines:
        bins, rows = _bins(series), series["rows"]
        heights = [(low, 100 * of * step / (rows * (high - low))) for low, high, of in bins]
        low, high, most = max(bins, key=lambda one: one[2] / (one[1] - one[0]))
        peak = f"most from {_plain(low)} to {_plain(high)}, {100 * most / rows:.0f} % of them"
        words = f"{name}: {rows:,.0f} rows, {peak}"
        points = [(bins[0][0], 0.0), *heights, (bins[-1][1], 0.0)]
        curves.append(Curve(name, points, steps=True, words=words))
    edges = [edge for _, series in lines for edge in series["edges"]]
    low, high = min(edges), max(edges)
    ticks = [low + part * (high - low) / 4 for part in range(5)]
    marks = [(at, _plain(at)) for at in ticks]
    return chart(curves, title=_CAPTION, x_ticks=marks, x_label="score")


def _caption(step: float) -> str:
    return f"% of the rows for each {_plain(step)} of the score"


def _plain(value: float) -> str:
    """A number without a power of ten, as long as there is room."""
    return f"{value:,.8g}"


def _least(found: Mapping[str, Any]) -> str:
    return (
        f"A bin has at least {found['least']} rows or none: smaller ones are merged with those "
        "beside them, so that no bar is one person. What lies beyond the ends is in the last bins."
    )


def _table(name: str, shown: Sequence[Series]) -> Table:
    rows = tuple(
        (
            Cell(series["name"]),
            Cell(_plain(low), low),
            Cell(_plain(high), high),
            count(int(of)),
            Cell(f"{100 * of / series['rows']:.1f} %", of / series["rows"]),
        )
        for series in shown
        for low, high, of in _bins(series)
    )
    return Table(name, "Scores", ("whose", "from", "below", "rows", "share"), rows)
