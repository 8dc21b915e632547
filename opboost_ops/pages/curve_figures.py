"""A version's held-out rows in pictures: how it ranks, how sure it is, and beside what."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opboost_ops.pages.blocks import Block, Cell, Figure, Figures, Table
from opboost_ops.pages.pictures import Curve, chart
from opboost_ops.pages.version_facts import by_rank

_NAMES = {"label_holder_alone": "label holder alone", "reference": "reference"}
_TICKS = [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1")]
_DIAGONAL = Curve("by chance", ((0.0, 0.0), (1.0, 1.0)), dashed=True)

#: What the diagonal of a calibration is called.
EXACT = "as it should be"

_TOLD = (
    "On held-out rows, in the mode of scoring. Each step of a curve is a row: these pictures are "
    "for the label holder alone."
)


def curve_blocks(evaluation: Mapping[str, Any]) -> list[Block]:
    """Pictures and intervals of an evaluation; none of one that was made before there were any.

    Args:
        evaluation: As the version keeps it.
    """
    if not evaluation.get("curves"):
        return []
    new = f"federated_{evaluation['mode']}"
    curves = evaluation["curves"]
    named = {
        _NAMES.get(n, "this version"): curves[n] for n in sorted(curves, key=lambda n: n != new)
    }
    first = curves[new]
    figures = []
    if "roc" in first:
        figures += [
            _figure(named, "roc", "ROC", "false positive rate, against true positive rate"),
            _figure(named, "pr", "Precision", "recall, against precision"),
            _figure(named, "gains", "Gains", "share of rows, against share of positives"),
        ]
    if "calibration" in first:
        points = {
            name: {"points": [(g["score"], g["share"]) for g in of["calibration"]]}
            for name, of in named.items()
        }
        axes = "mean score, against what was so"
        figures.append(_figure(points, "points", "Calibration", axes, EXACT))
    if "residuals" in first:
        lines = [
            Curve(f"{name}, {k}", [(float(i + 1), g[k]) for i, g in enumerate(of["residuals"])])
            for name, of in named.items()
            for k in (("low", "middle", "high") if of is first else ("middle",))
        ]
        ticks = [(float(i + 1), str(i + 1)) for i in range(len(first["residuals"]))]
        title = "Residuals by decile of the prediction: 10 %, median, 90 %"
        picture = chart(lines, title=title, x_ticks=ticks, x_label="decile", from_zero=False)
        figures.append(Figure(picture, title))
    return [Figures("Held-out rows", tuple(figures), _TOLD), _intervals(evaluation, new)]


def _figure(
    named: Mapping[str, Any], key: str, title: str, axes: str, diagonal: str = "by chance"
) -> Figure:
    lines = [Curve(name, [(x, y) for x, y in of[key]]) for name, of in named.items()]
    if key != "pr":
        lines.append(replace(_DIAGONAL, name=diagonal))
    return Figure(chart(lines, title=f"{title}: {axes}", x_ticks=_TICKS, x_label=axes), title)


def _intervals(evaluation: Mapping[str, Any], new: str) -> Table:
    gains = evaluation.get("gains", {})
    others = [name for name in _NAMES if name in gains]
    rows = tuple(
        (
            Cell(metric.replace("_", " ")),
            _cell(evaluation["intervals"][new][metric], ""),
            *(_cell(gains[other][metric], "+") for other in others),
        )
        for metric in by_rank(evaluation["intervals"][new])
    )
    heads = ("metric", "this version", *(f"gain over {_NAMES[name]}" for name in others))
    # Versions of before say nothing of the method: there was one.
    method = evaluation.get("interval_method", "paired bootstrap of the held-out rows")
    return Table("intervals", f"Metrics with 95 % intervals: {method}", heads, rows)


def _cell(of: Mapping[str, float], sign: str) -> Cell:
    form = f"{sign}.4f"
    return Cell(f"{of['value']:{form}} ({of['low']:{form}} to {of['high']:{form}})", of["value"])
