"""The page of a simulation: the metric in each mode over the loss, beside alone and centralised."""

from opboost_ops.extras.lab.simulation import MODES, Simulation
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.display.html import charts_html

#: What must stand beside the picture.
NOT_CHARGED = (
    "Noise and parties are imagined, and no ledger records this: it is not charged. If the table "
    "will be released, choosing an epsilon by it discloses something about it, outside any "
    "epsilon."
)


def answer(simulation: Simulation) -> list[str]:
    """Whether it would pay, in sentences.

    Args:
        simulation: What came of it.
    """
    lines = []
    for mode in MODES:
        point = simulation.pays_from(mode)
        if point is None:
            lines.append(
                f"{mode}: no gain over alone is shown at the largest epsilon; it would not pay."
            )
        else:
            lines.append(
                f"{mode}: it would pay from epsilon {point.epsilon:g} on (loss {point.loss:.3g} "
                f"across the domain): {simulation.metric} {point.metric}, {point.gain} over alone."
            )
    return lines


def simulation_report(title: str, simulation: Simulation) -> str:
    """One chart; its curves' thin lines are the ends of 95 % intervals.

    Args:
        title: Of the page.
        simulation: What it shows.
    """
    curves = []
    ends = sorted({point.loss for point in simulation.points})
    span = (ends[0], ends[-1])
    for mode in MODES:
        mine = sorted((p for p in simulation.points if p.mode == mode), key=lambda p: p.loss)
        curves.append(
            Curve(
                mode,
                [(p.loss, p.metric.value) for p in mine],
                band=[(p.metric.low, p.metric.high) for p in mine],
            )
        )
    for name, reference in (("alone", simulation.alone), ("centralised", simulation.centralised)):
        curves.append(
            Curve(
                f"{name}, {reference.value:.4f}",
                [(x, reference.value) for x in span],
                dashed=True,
                band=[(reference.low, reference.high)] * 2,
            )
        )
    marks = [ends[0], ends[len(ends) // 2], ends[-1]]
    caption = f"{simulation.metric} of {simulation.rows[1]:,} held-out rows, with 95 % intervals"
    picture = chart(
        curves,
        title=caption,
        x_ticks=[(x, f"{x:.3g}") for x in dict.fromkeys(marks)],
        x_label="loss of a number across the domain",
        from_zero=False,
        logarithmic=True,
    )
    lead = " ".join((*answer(simulation), NOT_CHARGED))
    return charts_html(title, lead, [(caption, picture)])
