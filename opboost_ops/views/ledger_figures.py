"""The privacy ledger in pictures: losses over time, and loss curves."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from opboost_ops.display.blocks import Figure, Figures
from opboost_ops.display.charts import KINDS, Curve, chart
from opboost_ops.privacy.budgets import Forecast
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.statement import latest_curves

#: Both losses of each column by some moments.
Heights = Sequence[tuple[str, Mapping[UUID, tuple[float, float]]]]


def history(heights: Heights, found: Mapping[UUID, Forecast]) -> Figures:
    """Cumulative losses over time: the features that cost most, and their budgets.

    Args:
        heights: Both losses of each column by some moments, oldest first.
        found: The columns that are drawn.
    """
    order = sorted(found, key=lambda uuid: found[uuid].account.whole, reverse=True)
    first, last = (datetime.fromisoformat(heights[i][0]) for i in (0, -1))
    figures = []
    for label, budget, end in (("loss(1)", "budget_1", 0), ("loss(R-L)", "budget_whole", 1)):
        lines = {
            uuid: [
                (datetime.fromisoformat(at).timestamp(), both[uuid][end])
                for at, both in heights
                if uuid in both
            ]
            for uuid in order
        }
        curves = [Curve(name, points, steps=True) for name, points in _together(found, lines)]
        caps: dict[float, list[str]] = {}
        for uuid in lines:
            if (cap := getattr(found[uuid].rule, budget)) is not None:
                caps.setdefault(cap, []).append(found[uuid].feature)
        curves += [
            Curve(
                f"budget of {_named(names)}: {cap:g}",
                [(first.timestamp(), cap), (last.timestamp(), cap)],
                dashed=True,
            )
            for cap, names in sorted(caps.items())
        ]
        shown = "%Y-%m-%d" if (last - first).days > 1 else "%m-%d %H:%M"
        ends = {t.strftime(shown): t for t in (last, first)}
        svg = chart(
            curves,
            title=f"Sum of {label} by feature over time",
            # Both ends may be of one minute.
            x_ticks=[(t.timestamp(), words) for words, t in ends.items()],
        )
        figures.append(Figure(svg, f"Sum of {label}"))
    note = f"At most {KINDS} different curves, of the features that cost most."
    return Figures("Charged over time", tuple(figures), note)


def _together(
    found: Mapping[UUID, Forecast], lines: dict[UUID, list[tuple[float, float]]]
) -> list[tuple[str, list[tuple[float, float]]]]:
    """Equal curves as one: features of one mechanism often cost the same."""
    groups: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for uuid, points in lines.items():
        groups.setdefault(tuple(points), []).append(found[uuid].feature)
    return [
        (
            _named(names),
            [*points],
        )
        for points, names in list(groups.items())[:KINDS]
    ]


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def loss_curves(releases: Iterable[Release]) -> Figures:
    """A picture of each feature's last published loss curve.

    Args:
        releases: Oldest first.
    """
    releases = list(releases)
    names = {r.column: (r.feature or "").partition("=")[0] for r in releases if r.column}
    figures = []
    for uuid, curves in latest_curves(releases).items():
        for bit, curve in curves.items():
            name = f"{names[uuid]}={bit}" if bit else names[uuid]
            figures.append(_loss_curve(name, curve))
    return Figures(
        "Loss curves",
        tuple(figures),
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
