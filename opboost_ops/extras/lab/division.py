"""Choice of the columns to release, and division of a total loss over them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from opboost_ops.config.loading import load_federation
from opboost_ops.config.policy import FeatureRule
from opboost_ops.errors import ConfigError
from opboost_ops.extras.lab.advice import with_best_scales
from opboost_ops.extras.lab.evidence import Request, declaration, evidence_for
from opboost_ops.extras.lab.ranking import feature_holder, rules_of
from opboost_ops.privacy.division import Divider
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.planner import Caps
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.display.html import charts_html

#: Note on every proposal.
CHOSEN = (
    "The proposed columns are less protected than with an even division, and the others are not "
    "released at all: this is their party's choice."
)


@dataclass(frozen=True)
class Proposal:
    """A total loss divided over a feature holder's columns.

    Attributes:
        details: Output of `opboost plan --json`: ``columns`` with ``name``, ``share``,
            ``loss_1``, ``loss_whole`` and ``mechanism``; ``left_out``; changed ``scales``; the
            ``total``; ``beyond_own``, whether columns are judged beyond the label holder's own
            columns; and the explained shares of the label's variance, ``kept``, ``kept_evenly`` and
            ``kept_unprotected``.
        picture: An HTML page.
    """

    details: Mapping[str, Any]
    picture: Path

    def __repr__(self) -> str:
        shares = ", ".join(f"{c['name']} {c['share']:.0%}" for c in self.details["columns"])
        return f"Proposal({self.details['party']}: {shares}; keeps {self.details['kept']:.3f})"

    @property
    def mechanisms(self) -> dict[str, dict[str, Any]]:
        """The ``mechanism`` of each released column, for the federation file."""
        return {column["name"]: column["mechanism"] for column in self.details["columns"]}

    def document(self) -> dict[str, Any]:
        """Return the proposal as a JSON object."""
        return {**self.details, "picture": str(self.picture)}


def divide(
    file: Path, party: str | None, request: Request, progress: Callable[[int, int], None]
) -> Proposal:
    """Propose a division, and plot it; the party's own table is not read.

    Args:
        file: ``federation.yaml``.
        party: The feature holder. Default: the only one.
        request: The total loss and the kind of evidence.
        progress: Called with the number of finished channels and of all channels.

    Raises:
        ConfigError: There is not exactly one kind of evidence, or nothing to divide.
    """
    declared = load_federation(file)
    holder = feature_holder(declared, party)
    rules = rules_of(file, holder)
    if request.reach is not None and not 0 < request.reach <= 1:
        raise ConfigError("--reach must be a share of the unprotected gain: above 0, at most 1.")
    scales: dict[str, Any] = {}
    if request.rescale and request.sample is not None:
        declared, scales = with_best_scales(declared, holder, request.sample)
    basis = evidence_for(declared, holder, request)
    evidence, total, out = basis.evidence, request.total, request.out or Path()
    divider = Divider(evidence, basis.domains, total, progress)
    domains = dict(zip(evidence.names, basis.domains, strict=True))
    clear = divider.unprotected()
    units = divider.units
    if request.reach is not None:
        units = _least(divider, request.reach * clear)
    best = divider.best(units)
    if not best.kept > 0:
        raise ConfigError(
            "This total is too small for any channel to be useful.",
            "Raise it, or use a sample whose columns predict the label.",
        )
    columns = []
    for name, share in sorted(best.shares.items(), key=lambda pair: -pair[1]):
        mechanism = divider.mechanism(name, share)
        if mechanism is None:
            continue
        losses = end_losses(mechanism.channel(domains[name]))
        columns.append(
            {
                "name": name,
                "share": round(share / units, 6),
                "loss_1": losses[0],
                "loss_whole": losses[1],
                "mechanism": declaration(mechanism, out),
                "over_policy": _over(rules.get(name), losses),
            }
        )
    picture = out / f"division-{declared.name}-{holder}.html"
    picture.parent.mkdir(parents=True, exist_ok=True)
    title = f"Columns of {holder} in {declared.name}"
    picture.write_text(
        division_report(title, f"{basis.lead} {CHOSEN}", divider, total, clear), encoding="utf-8"
    )
    named = {column["name"] for column in columns}
    result = {
        "federation": declared.name,
        "party": holder,
        "by": basis.by,
        "total": {
            "loss_1": _part(total.step, units, divider),
            "loss_whole": _part(total.whole, units, divider),
        },
        "kept": round(best.kept, 6),
        "kept_evenly": round(divider.even(units), 6),
        "kept_unprotected": round(clear, 6),
        "columns": columns,
        "left_out": [name for name in evidence.names if name not in named],
        "scales": scales,
        "reach": request.reach,
        "says": CHOSEN,
        "beyond_own": basis.beyond_own,
    }
    return Proposal(result, picture)


def _part(total: float | None, units: int, divider: Divider) -> float | None:
    return None if total is None else total * units / divider.units


def _least(divider: Divider, wanted: float) -> int:
    """Return the minimum number of units that keep a share of the variance."""
    low, high = 0, divider.units
    if divider.best(high).kept < wanted:
        raise ConfigError(
            f"The whole total keeps {divider.best(high).kept:.3f} of the label's variance, less "
            f"than the requested {wanted:.3f}.",
            "Raise the total, or lower --reach.",
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if divider.best(middle).kept >= wanted else (middle, high)
    return high


def _over(rule: FeatureRule | None, losses: tuple[float, float]) -> bool:
    if rule is None:
        return False
    return rule.budget is not None and losses[1] > rule.budget


#: Parts of the total that are plotted, in units; few, because each division takes a search.
_PARTS = (1, 2, 4, 6, 8, 12, 16)


def division_report(title: str, lead: str, divider: Divider, total: Caps, clear: float) -> str:
    """Plot the proposed division and an even one, up to the total.

    Args:
        title: Title of the page.
        lead: Text on the evidence and its limits.
        divider: Divider of the total.
        total: Caps on the sum over columns.
        clear: Share of the variance that unprotected columns keep.
    """
    whole = total.step if total.step is not None else total.whole
    assert whole is not None
    label = "sum of loss(1)" if total.step is not None else "sum of loss(R - L)"
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
        x_label=label,
    )
    return charts_html(title, lead, [(caption, picture)])
