"""The page of a party's attacks on its own release."""

from opboost_ops.extras.lab.leakage import Leakage
from opboost_ops.reports.display.charts import Curve, bars, chart
from opboost_ops.reports.display.html import charts_html


def leakage_report(title: str, found: Leakage) -> str:
    """Success beside guessing by column, and success over retrainings.

    Args:
        title: Of the page.
        found: The attacks.
    """
    rows: list[tuple[str, float, int]] = []
    for name, tried in found.columns.items():
        rows.append((f"{name}: guessing the median", 100 * tried[0].baseline, 3))
        rows += [(f"{name}: {one.name}", 100 * one.success, i) for i, one in enumerate(tried)]
    caption = "Rows placed within 5 % of the domain"
    figures = [(caption, bars(rows, title=caption, unit=" %"))]
    if found.averaging:
        worst = max(found.averaging, key=lambda n: found.averaging[n].fresh[-1].success)
        curves = found.averaging[worst]
        times = len(curves.pinned)
        caption = f"Averaging over retrainings: {worst}, share of rows"
        picture = chart(
            [
                Curve(
                    "pinned responses (as released)",
                    [(t, a.success) for t, a in enumerate(curves.pinned, 1)],
                ),
                Curve(
                    "fresh noise at every run (not used)",
                    [(t, a.success) for t, a in enumerate(curves.fresh, 1)],
                ),
            ],
            title=caption,
            x_ticks=[(1.0, "1"), (float(times), str(times))],
            x_label="retrainings",
        )
        figures.append((caption, picture))
    lead = "What the next release would disclose. This page stays at home."
    return charts_html(title, lead, figures)
