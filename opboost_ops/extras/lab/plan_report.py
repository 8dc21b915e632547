"""The planner's page: what order each mechanism keeps, and at which loss."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from opboost_ops.privacy.planner import Candidate
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.display.html import charts_html


def plan_report(
    title: str, ranked: Mapping[str, Sequence[tuple[float, Candidate]]], more: str = ""
) -> str:
    """Two charts a feature: loss curves of the best of each mechanism, and order over loss.

    Args:
        title: Of the page.
        ranked: From `planner.rank`, by feature.
        more: Said besides what the page shows.
    """
    figures: list[tuple[str, Markup]] = []
    for feature, pairs in ranked.items():
        by_mechanism: dict[str, list[tuple[float, Candidate]]] = {}
        for score, candidate in pairs:
            by_mechanism.setdefault(candidate.mechanism.name, []).append((score, candidate))
        best = [found[0][1].curve for found in by_mechanism.values()]
        furthest = len(best[0].loss)
        losses = [
            Curve(c.mechanism, [(t, float(loss)) for t, loss in enumerate(c.loss, 1)]) for c in best
        ]
        ticks = [(float(t), str(t)) for t in dict.fromkeys((1, (1 + furthest) // 2, furthest))]
        caption = f"{feature}: loss(t) of the best of each mechanism"
        figures.append((caption, chart(losses, title=caption, x_ticks=ticks, x_label="steps t")))
        orders = [
            Curve(name, sorted((float(c.curve.loss[-1]), score) for score, c in found))
            for name, found in by_mechanism.items()
        ]
        ends = sorted(x for curve in orders for x, _ in curve.points)
        marks = [(x, f"{x:.3g}") for x in dict.fromkeys((ends[0], ends[-1]))]
        caption = f"{feature}: expected weighted Kendall of all candidates"
        figures.append((caption, chart(orders, title=caption, x_ticks=marks, x_label="loss(R-L)")))
    lead = "Mechanisms within the caps, ranked by the order that they are expected to keep."
    return charts_html(title, lead + more, figures)
