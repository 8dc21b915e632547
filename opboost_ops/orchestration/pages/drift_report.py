"""Drift by feature: how far a party's table has moved from the one its champion was trained on."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opboost_ops.quality.report import Report
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Links,
    Row,
    Table,
)
from opboost_ops.reports.display.charts import KINDS, Curve, bars, chart

#: Runs in the picture over time, and features in that of one run.
_RUNS, _FEATURES = 30, 30

_INDEX = (
    "The index is near zero if the feature's bins have the same shares as in the champion's "
    "training table; drift is an index above the policy's limit and above chance."
)


def drift_report(profile: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> list[Block]:
    """One run's drift, and before it the runs' before.

    Args:
        profile: Of the report.
        folders: Folders of reports of the federation's runs, newest first, this run's among them.
    """
    columns = [(str(r["column"]), r, bool(r["index"] <= r["limit"])) for r in profile]
    columns.sort(key=lambda line: -float(line[1]["index"]))
    drifted = sum(not good for _, _, good in columns)
    facts = Facts(
        (
            Fact(
                "Drift",
                f"{drifted} of {len(columns)} features" if drifted else "none",
                "compared with the champion's training table",
                "bad" if drifted else "good",
            ),
            *(
                Fact("Limit of the index", f"{arguments['most']:g}", "of this party's policy")
                for _, arguments, _ in columns[:1]
            ),
        )
    )
    rows: Sequence[Row] = [
        (
            Cell("no drift", state="good") if good else Cell("drift", state="bad"),
            feature,
            float(of["index"]),
            float(of["chance"]),
            *(_share(of[name]) for name in ("missing_then", "missing", "clipped_then", "clipped")),
        )
        for feature, of, good in columns
    ]
    heads = (
        "result",
        "feature",
        "index",
        "by chance",
        "missing then",
        "missing now",
        "outside bounds then",
        "outside bounds now",
    )
    picture = bars(
        [(name, float(of["index"]), 0 if good else 1) for name, of, good in columns[:_FEATURES]],
        title="Population stability index by feature",
        digits=3,
    )
    return [
        facts,
        *over_time(folders),
        Figures("Drift by feature", (Figure(picture, "population stability index"),), _INDEX),
        Table("drift", "Features", heads, rows, "Shares of rows; no value of the table is shown."),
    ]


def over_time(folders: Sequence[Path]) -> list[Block]:
    """A picture of the index by feature over runs; nothing before the second.

    Args:
        folders: Folders of reports of one federation's runs, newest first.
    """
    history: list[tuple[str, dict[str, float]]] = []
    limits: list[float] = []
    for folder in folders[:_RUNS]:
        try:
            path = folder / "drift.json"
            rows = Report(json.loads(path.read_bytes())).profile
            day = f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d}"
            history.append((day, {r["column"]: float(r["index"]) for r in rows}))
            limits += [float(r["most"]) for r in rows]
        except (OSError, ValueError, KeyError, TypeError):
            # Not every run compares tables, and its own page says what is damaged.
            continue
    history.reverse()
    if len(history) < 2:
        return []
    most: dict[str, float] = {}
    for _, indices in history:
        for name, index in indices.items():
            most[name] = max(index, most.get(name, 0.0))
    names = sorted(most, key=lambda name: -most[name])[:KINDS]
    curves = [
        Curve(name, [(float(at), of[name]) for at, (_, of) in enumerate(history) if name in of])
        for name in names
    ]
    ends = [(0.0, limits[-1]), (float(len(history) - 1), limits[-1])]
    curves.append(Curve(f"limit {limits[-1]:g}", ends, dashed=True))
    last = len(history) - 1
    ticks = [(float(at), history[at][0]) for at in sorted({0, last // 2 if last > 3 else 0, last})]
    svg = chart(curves, title="Drift over time by feature", x_ticks=ticks)
    note = f"The {len(names)} features that moved most, over the {len(history)} newest runs."
    return [Figures("Drift over time", (Figure(svg, "population stability index"),), note)]


def _share(value: Any) -> Cell:
    return Cell(f"{100 * float(value):.2f} %", float(value))


def kept_report(start: str) -> Links:
    """A link to the report as the run has written it.

    Args:
        start: The page's own path.
    """
    return Links((("The report at home", f"{start}.html"),))
