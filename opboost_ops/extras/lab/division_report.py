"""The picture of a divided loss: what is kept over the total, by division."""

from markupsafe import Markup

from opboost_ops.privacy.division import Divider
from opboost_ops.privacy.planner import Caps
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.display.html import charts_html

#: Parts of the total that are drawn: every division takes a search.
_PARTS = (1, 2, 4, 6, 8, 12, 16)


def division_report(title: str, lead: str, divider: Divider, total: Caps, clear: float) -> str:
    """One chart: the proposed division beside an even one, up to the total.

    Args:
        title: Of the page.
        lead: By what it was proposed, and what is to be known of it.
        divider: Of the total.
        total: Caps on the sum over columns.
        clear: What unprotected columns keep.
    """
    whole = total.step if total.step is not None else total.whole
    assert whole is not None
    words = "sum of loss(1)" if total.step is not None else "sum of loss(R - L)"
    units = [k for k in _PARTS if k <= divider.units]
    proposed = [(whole * k / divider.units, divider.best(k).kept) for k in units]
    even = [(whole * k / divider.units, divider.even(k)) for k in units]
    ends = [proposed[0][0], proposed[-1][0]]
    caption = "Share of the label's variance that released columns explain"
    picture: Markup = chart(
        [
            Curve("divided as proposed", proposed),
            Curve("evenly over all columns", even),
            Curve("without protection", [(x, clear) for x in ends], dashed=True),
        ],
        title=caption,
        x_ticks=[(x, f"{x:.3g}") for x in ends],
        x_label=words,
    )
    return charts_html(title, lead, [(caption, picture)])
