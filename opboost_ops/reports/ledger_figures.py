"""The privacy ledger in pictures: losses over time, and loss curves."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.reports.display.blocks import Figure, Figures
from opboost_ops.reports.display.charts import KINDS, Curve, chart
from opboost_ops.reports.ledger import ColumnLine

#: What each raw column had cost by some moments.
Heights = Sequence[tuple[str, Mapping[str, float]]]


def history(heights: Heights, lines: Sequence[ColumnLine]) -> Figures:
    """Cumulative losses over time: the columns that cost most, and their budgets.

    Args:
        heights: What each raw column had cost by some moments, oldest first.
        lines: The columns that are drawn.
    """
    names = {line.column: line.feature for line in lines}
    budgets = {line.column: line.budget for line in lines}
    order = sorted(lines, key=lambda line: line.spent, reverse=True)
    first, last = (datetime.fromisoformat(heights[i][0]) for i in (0, -1))
    points = {
        column: [
            (datetime.fromisoformat(at).timestamp(), spent[column])
            for at, spent in heights
            if column in spent
        ]
        for column in dict.fromkeys(line.column for line in order)
    }
    curves = [Curve(name, values, steps=True) for name, values in _together(names, points)]
    caps: dict[float, list[str]] = {}
    for column in points:
        if (cap := budgets[column]) is not None:
            caps.setdefault(cap, []).append(names[column])
    curves += [
        Curve(
            f"budget of {_named(features)}: {cap:g}",
            [(first.timestamp(), cap), (last.timestamp(), cap)],
            dashed=True,
        )
        for cap, features in sorted(caps.items())
    ]
    shown = "%Y-%m-%d" if (last - first).days > 1 else "%m-%d %H:%M"
    ends = {t.strftime(shown): t for t in (last, first)}
    svg = chart(
        curves,
        title="Sum of loss(R-L) by column over time",
        # Both ends may be of one minute.
        x_ticks=[(t.timestamp(), words) for words, t in ends.items()],
    )
    note = f"At most {KINDS} different curves, of the columns that cost most."
    return Figures("Charged over time", (Figure(svg, "Sum of loss(R-L)"),), note)


def _together(
    names: Mapping[str, str], lines: Mapping[str, list[tuple[float, float]]]
) -> list[tuple[str, list[tuple[float, float]]]]:
    """Equal curves as one: features of one mechanism often cost the same."""
    groups: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for column, points in lines.items():
        groups.setdefault(tuple(points), []).append(names[column])
    return [
        (
            _named(names),
            [*points],
        )
        for points, names in list(groups.items())[:KINDS]
    ]


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def loss_curves(entries: Iterable[LedgerEntry]) -> Figures:
    """A picture of each column's last published loss curve.

    Args:
        entries: Oldest first.
    """
    latest = {e.feature: e.loss for e in entries if e.feature is not None and e.loss is not None}
    figures = [_loss_curve(name, curve) for name, curve in latest.items()]
    return Figures(
        "Loss curves",
        figures,
        "How much more likely an output becomes when a value moves by t steps: the natural "
        "logarithm of the ratio, computed from the very table that was sampled.",
    )


def _loss_curve(name: str, curve: LossCurve) -> Figure:
    values = [float(v) for v in curve.loss]
    points = [(float(t), v) for t, v in enumerate(values, 1)]
    nominal = [(float(t), t * curve.epsilon) for t in (1, len(values))]
    infinite = sum(v == float("inf") for v in values)
    words = f"{name}: {curve.mechanism}"
    if infinite:
        words += f"; infinite from t = {len(values) - infinite + 1}"
    elif not curve.certificate:
        words += "; above t epsilon in places"
    curves = [Curve("loss(t)", points), Curve("t epsilon", nominal, dashed=True)]
    ticks = [(1.0, "1")] + ([(float(len(values)), str(len(values)))] if len(values) > 1 else [])
    svg = chart(curves, title=f"Loss curve of {words}", x_ticks=ticks, x_label="steps t")
    return Figure(svg, words)
