"""The page of a party's attacks on its own release."""

from opboost_ops.display.charts import bars
from opboost_ops.display.html import charts_html
from opboost_ops.run.leakage import Leakage


def leakage_report(title: str, found: Leakage) -> str:
    """Success beside guessing, by column.

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
    lead = "What the next release would disclose. This page stays at home."
    return charts_html(title, lead, figures)
