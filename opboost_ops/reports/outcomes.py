"""Results of a training run, and observed outcomes of the people that a version scored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.learning.metrics import LOSSES, Interval, main_metric
from opboost_ops.privacy.edge_charges import edges_costs
from opboost_ops.privacy.loss import column_losses
from opboost_ops.reports.display.blocks import (
    Block,
    Fact,
    Facts,
    Figure,
    Figures,
    Note,
    State,
    Table,
    finite,
    moment,
)
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.versions import Version, by_rank, interval_cell

#: Folder with the last report of each version, in the party's home folder of the federation.
OUTCOMES = "outcomes"

#: Name of the label holder's own columns among the gains.
_ALONE = "label_holder_alone"


class Group(Record):
    """Rows with neighbouring scores.

    Attributes:
        rows: Number of rows, at least ten.
        score: Their mean score.
        observed: Share of positives or of correct classes, or mean of the label.
    """

    rows: int
    score: float
    observed: Interval


class Outcomes(Record):
    """A report on the known outcomes of a version's scores.

    Attributes:
        version: Id of the version.
        mode: Scoring mode.
        at: Time of the report, UTC.
        rows: Rows of the file.
        joined: Rows of people whom the version has scored and whose outcome is known.
        unknown: Rows of people whom it has not scored.
        open: Rows without an outcome.
        score: Mean score; for several classes the mean probability of the most likely one.
        observed: As in `Group`.
        metrics: Metrics by name.
        groups: Groups by ascending score.
    """

    version: str
    mode: str
    at: str
    rows: int
    joined: int
    unknown: int
    open: int
    score: float
    observed: Interval
    metrics: Mapping[str, Interval]
    groups: tuple[Group, ...]

    @property
    def off(self) -> bool:
        """True if the mean score lies outside the interval of the observed outcomes."""
        return not self.observed.low <= self.score <= self.observed.high

    def worse(self, metric: str, held_out: Interval | None) -> bool:
        """True if a metric is worse than on the held-out rows, and the intervals do not overlap.

        Args:
            metric: Name of the metric.
            held_out: The metric on the held-out rows.
        """
        interval = self.metrics.get(metric)
        if interval is None or held_out is None:
            return False
        return interval.low > held_out.high if metric in LOSSES else interval.high < held_out.low


def outcomes_of(home: Path, version: str) -> Outcomes | None:
    """Return the last report of a version, or None.

    Args:
        home: The party's home folder of the federation.
        version: Id of the version.

    Raises:
        ValueError: The report is damaged.
    """
    path = home / OUTCOMES / f"{version}.json"
    return Outcomes.model_validate_json(path.read_bytes()) if path.is_file() else None


def outcome_blocks(outcomes: Outcomes, version: Version) -> list[Block]:
    """Return a report next to the version's held-out rows."""
    blocks: list[Block] = []
    names = by_rank(outcomes.metrics)
    held_out = version.intervals if version.mode == f"federated_{outcomes.mode}" else {}
    worse = [name for name in names if outcomes.worse(name, held_out.get(name))]
    faults = [f"{', '.join(worse)} worse than on the held-out rows"] if worse else []
    if outcomes.off:
        faults.append(f"mean score {outcomes.score:.4g}, observed {_span_words(outcomes.observed)}")
    if faults:
        text = f"Outcomes differ from what the held-out rows promised: {'; '.join(faults)}."
        remedy = "Train again on newer labels, or declare scoring.calibration."
        blocks.append(Note("warn", text, remedy))
    state: State = "warn" if outcomes.off else "good"
    blocks.append(
        Facts(
            (
                Fact(
                    "Outcomes known",
                    f"{outcomes.joined:,}",
                    f"of {outcomes.rows:,} rows of the file",
                ),
                Fact(
                    "Not scored", f"{outcomes.unknown:,}", "people whom this version has not scored"
                ),
                Fact(
                    "Without outcome",
                    f"{outcomes.open:,}",
                    f"reported {moment(outcomes.at).text} UTC",
                ),
                Fact(
                    "Mean score",
                    f"{outcomes.score:.4g}",
                    f"observed: {_span_words(outcomes.observed)}",
                    state,
                ),
            )
        )
    )
    points = [(group.score, group.observed.value) for group in outcomes.groups]
    band = [(group.observed.low, group.observed.high) for group in outcomes.groups]
    low, high = points[0][0], points[-1][0]
    lines = [
        Curve("outcomes", points, band=band),
        Curve("perfect calibration", ((low, low), (high, high)), dashed=True),
    ]
    label = "mean score, against observed outcome"
    svg = chart(
        lines,
        title="Calibration on outcomes",
        x_ticks=[(at, f"{at:,.4g}") for at in (low, (low + high) / 2, high)],
        x_label=label,
        from_zero=False,
    )
    figure = Figure(svg, f"{label}; the band is a 95 % interval")
    blocks.append(Figures("Calibration on outcomes", (figure,)))
    rows = [
        (
            name.replace("_", " "),
            interval_cell(outcomes.metrics[name]),
            interval_cell(held_out[name]) if name in held_out else None,
        )
        for name in names
    ]
    heads = ("metric", "on outcomes", "on held-out rows")
    note = (
        "People whose outcome is known may be others than all who were scored, where decisions "
        "followed the scores."
    )
    return [
        *blocks,
        Table("outcomes", "Metrics on outcomes, with 95 % intervals", heads, rows, note),
    ]


def _span_words(span: Interval) -> str:
    return f"{span.value:.4g} ({span.low:.4g} to {span.high:.4g})"


def outcome(
    federation: Federation, files: Mapping[str, bytes], registered: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of a training run.

    Args:
        federation: The declaration of the run; vertical.
        files: Files of the version that it trained.
        registered: Summary of `register`: ``champion`` and ``why``.

    Returns:
        ``metric``; the ``gain`` over the label holder's columns alone with its 95 % interval, in
        the scoring mode, None if not measured; ``mode``, ``champion``, ``why``; and ``cost``, the
        loss(R - L) of one release with its private edges, by party.
    """
    evaluation = json.loads(files["evaluation.json"])
    facts = json.loads(files["columns.json"])
    metric = main_metric(facts["task"])
    gain = evaluation.get("gains", {}).get(_ALONE, {}).get(metric)
    cost = {
        party: sum(
            float(curve.loss[-1]) for curve in column_losses(columns_of(federation, party)).values()
        )
        + sum(edges_costs(federation, party).values())
        for party in federation.feature_holders
    }
    return {
        "metric": metric,
        "gain": gain,
        "mode": evaluation["mode"],
        "champion": registered["champion"],
        "why": registered["why"],
        "cost": {party: finite(loss) for party, loss in cost.items()},
    }


def outcome_words(result: Mapping[str, Any]) -> str:
    """Describe the result in words: the gain, the gate's decision, and the cost.

    Args:
        result: Result of `outcome`.
    """
    became = "became champion" if result["champion"] else "did not become champion"
    paid = ", ".join(f"{float(loss):.1f} at {party}" for party, loss in result["cost"].items())
    cost = (
        f"One release costs a person a loss of at most {paid}, summed over the columns: a loss L "
        "changes the odds between any two records by at most e^L. Retraining costs nothing."
    )
    return f"{_gain_words(result)}; the model {became} ({result['why']}). {cost}"


def _gain_words(result: Mapping[str, Any]) -> str:
    gain, metric = result["gain"], result["metric"]
    if gain is None:
        return "The gain over the label holder alone is not measured"
    interval = f"{gain['value']:+.4f} (95 %: {gain['low']:+.4f} to {gain['high']:+.4f})"
    against = f"{metric} {interval} over the label holder alone, in mode {result['mode']}"
    if gain["low"] > 0:
        return f"The other parties' columns help: {against}"
    if gain["high"] < 0:
        return f"The other parties' columns make it worse: {against}; see `opboost plan`"
    return f"No gain is shown: {against}; see `opboost plan`"
