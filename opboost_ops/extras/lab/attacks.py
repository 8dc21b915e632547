"""Attacks that a party runs on its own release before it makes it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opboost_ops.config.loading import load_federation
from opboost_ops.extras.lab.leakage import Leakage
from opboost_ops.extras.lab.leakage import leakage as attack
from opboost_ops.extras.lab.ranking import feature_holder, own_context
from opboost_ops.pipeline.inputs.sources import borrowed
from opboost_ops.pipeline.party.party_sites import federation_file
from opboost_ops.reports.display.charts import Curve, bars, chart
from opboost_ops.reports.display.html import charts_html


@dataclass(frozen=True)
class Attacked:
    """A release that was attacked, and never made.

    Attributes:
        party: The feature holder.
        found: All attacks.
        picture: An HTML page in the party's home.
    """

    party: str
    found: Leakage
    picture: Path

    def __repr__(self) -> str:
        name, worst = self.found.worst
        return f"Attacked({self.party}: {worst.name} on {name} gains {worst.gain:.3f})"

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"party": self.party, **self.found.to_json(), "picture": str(self.picture)}


def leakage(federation: str | Path, party: str | None = None) -> Attacked:
    """Attack the release that a party would make now; report and picture stay in its home.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder; the only one when absent.

    Raises:
        ConfigError: The party or its site is not known.
        ContractError: Its table does not keep its declaration.
    """
    file = federation_file(Path(federation))
    declared = load_federation(file)
    holder = feature_holder(declared, party)
    context = own_context(file, declared, holder)
    home = context.home
    with borrowed(context) as lent:
        result = attack(lent)
    home.write_json("leakage", result.to_json())
    picture = home.folder / "leakage.html"
    title = f"Attacks on the release of {holder} in {declared.name}"
    home.write(picture.name, leakage_report(title, result).encode())
    return Attacked(holder, result, picture)


def leakage_report(title: str, result: Leakage) -> str:
    """Success beside guessing by column, and success over retrainings.

    Args:
        title: Of the page.
        result: The attacks.
    """
    rows: list[tuple[str, float, int]] = []
    for name, tried in result.columns.items():
        rows.append((f"{name}: guessing the median", 100 * tried[0].baseline, 3))
        rows += [
            (f"{name}: {attack.name}", 100 * attack.success, i) for i, attack in enumerate(tried)
        ]
    caption = "Rows placed within 5 % of the domain"
    figures = [(caption, bars(rows, title=caption, unit=" %"))]
    if result.averaging:
        worst = max(result.averaging, key=lambda n: result.averaging[n].fresh[-1].success)
        curves = result.averaging[worst]
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
