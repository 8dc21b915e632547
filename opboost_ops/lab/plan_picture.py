"""The planner's picture: what order each mechanism keeps, and at which loss."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from opboost_ops.lab import pictures
from opboost_ops.privacy.planner import Candidate


def draw(ranked: Mapping[str, Sequence[tuple[float, Candidate]]], path: Path) -> Path:
    """Draw a row a feature: loss curves of the best of each mechanism, and order against loss.

    Args:
        ranked: From `planner.rank`, by feature.
        path: Where the picture goes.
    """
    figure, plots = pictures.canvas(columns=2, rows=len(ranked))
    for i, (feature, pairs) in enumerate(ranked.items()):
        best: dict[str, tuple[float, Candidate]] = {}
        for score, candidate in pairs:
            best.setdefault(candidate.mechanism.name, (score, candidate))
        curves = {c.curve.mechanism: [float(v) for v in c.curve.loss] for _, c in best.values()}
        left, right = plots[2 * i], plots[2 * i + 1]
        distances = range(1, len(next(iter(curves.values()))) + 1)
        pictures.lines(left, list(distances), curves)
        pictures.name_axes(left, f"{feature}: best of each mechanism", "distance t", "loss(t)")
        for j, name in enumerate(best):
            mine = [(s, c) for s, c in pairs if c.mechanism.name == name]
            right.scatter(
                [float(c.curve.loss[-1]) for _, c in mine],
                [s for s, _ in mine],
                color=pictures.COLOURS[j % len(pictures.COLOURS)],
                marker=pictures.MARKERS[j % len(pictures.MARKERS)],
                s=16,
                label=name,
            )
        pictures.legend(right)
        pictures.name_axes(
            right, f"{feature}: all candidates", "loss(R - L)", "expected weighted Kendall"
        )
    return pictures.save(figure, path)
