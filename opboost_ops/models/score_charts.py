"""The distribution of a version's held-out scores on its card, as SVG inside the page."""

import html
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from opboost_ops.models.charts import COLOURS

_WIDTH, _HEIGHT, _EDGE, _FOOT = 360, 200, 44, 34


def distribution_section(evaluation: Mapping[str, Any]) -> str:
    """The picture as HTML; empty where the evaluation keeps no distribution.

    Args:
        evaluation: As a version keeps it.
    """
    found = evaluation.get("distributions", {}).get(evaluation.get("mode"), {})
    shown = [series for series in found.get("series", ()) if series["counts"]]
    if not shown:
        return ""
    width = min(high - low for s in shown for low, high in pairwise(s["edges"]))
    low, high = min(s["edges"][0] for s in shown), max(s["edges"][-1] for s in shown)
    bars = [
        [(a, b, rows * width / ((b - a) * s["rows"])) for (a, b), rows in _bins(s)] for s in shown
    ]
    top = max(height for of in bars for _, _, height in of)
    drawn, told = [], []
    for at, (series, of) in enumerate(zip(shown, bars, strict=True)):
        points = [(of[0][0], 0.0)]
        for begin, end, height in of:
            points += [(begin, height), (end, height)]
        points.append((of[-1][1], 0.0))
        placed = " ".join(
            f"{_EDGE + (x - low) / (high - low) * (_WIDTH - _EDGE - 8):.1f},"
            f"{_HEIGHT - _FOOT - y / top * (_HEIGHT - _FOOT - 14):.1f}"
            for x, y in points
        )
        dash = ("", 'stroke-dasharray="6 3"', 'stroke-dasharray="2 3"')[at % 3]
        drawn.append(
            f'<polyline points="{placed}" fill="none" stroke-width="2" {dash} '
            f'stroke="{COLOURS[at % len(COLOURS)]}"/>'
        )
        begin, end, height = max(of, key=lambda bar: bar[2])
        told.append(
            f"{series['name']}: {series['rows']} rows, most from {begin:,.8g} to {end:,.8g}, "
            f"{100 * height * (end - begin) / width:.0f} % of them"
        )
    lines = ("solid", "dashed", "dotted")
    names = "".join(
        f'<li><span style="color:{COLOURS[at % len(COLOURS)]}">■</span> '
        f"{html.escape(series['name'])}, {series['rows']:,} rows ({lines[at % 3]})</li>"
        for at, series in enumerate(shown)
    )
    label = html.escape(f"distribution of scores. {'; '.join(told)}")
    base = _HEIGHT - _FOOT
    middle = (_EDGE + _WIDTH - 8) / 2
    words = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
        for x, y, anchor, text in (
            (_EDGE - 5, 18, "end", f"{100 * top:.0f} %"),
            (_EDGE - 5, base, "end", "0 %"),
            (_EDGE, base + 14, "start", f"{low:,.8g}"),
            (_WIDTH - 8, base + 14, "end", f"{high:,.8g}"),
            (middle, base + 14, "middle", f"{(low + high) / 2:,.8g}"),
            (middle, _HEIGHT - 4, "middle", "score"),
        )
    )
    return (
        f'<ul class="names">{names}</ul><figure class="bars"><figcaption>Distribution of scores: '
        f"share of rows for each {width:,.8g}</figcaption>"
        f'<svg class="bars" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" '
        f'font-size="12" fill="currentColor"><line x1="{_EDGE}" x2="{_WIDTH - 8}" y1="{base}" '
        f'y2="{base}" stroke="currentColor" stroke-opacity=".35"/>{"".join(drawn)}{words}</svg>'
        f"</figure><p>A bin has at least {found['least']} rows or none: smaller ones are merged "
        "with those beside them.</p>"
    )


def _bins(series: Mapping[str, Any]) -> list[tuple[tuple[float, float], float]]:
    return list(zip(pairwise(series["edges"]), series["counts"], strict=True))
