"""The data quality pages: checks by run and boundary, single reports, and drift by feature."""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opboost_ops.config.loading import site_of
from opboost_ops.errors import ContractError
from opboost_ops.orchestration.pages.access import Query
from opboost_ops.quality.drift import SUITE
from opboost_ops.quality.validation import Report
from opboost_ops.reports.checks import report_blocks
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Figures,
    Links,
    Note,
    Row,
    State,
    Table,
    moment,
)
from opboost_ops.reports.display.charts import CURVE_KINDS, Curve, bars, chart

#: Runs per page; only their reports are read.
_RUNS = 15

_FEDERATION = re.compile(r"[a-z][a-z0-9_]{0,47}")
_RUN = re.compile(r"[0-9a-f]{16}")
_BOUNDARY = re.compile(r"[a-z][a-z0-9_]{0,119}")

#: Boundaries in the order of a run; others follow.
_ORDER = (
    "raw_table",
    "preprocessed_table",
    "release",
    "acceptance",
    "training_frame",
    "model",
)

#: Maximum number of runs in the plot over time, and of features in the plot of a run.
_DRIFT_RUNS, _FEATURES = 30, 30

_INDEX = (
    "The index is near zero if the feature's bins have the same shares as in the champion's "
    "training table; drift is an index above the policy's limit and above chance."
)


@dataclass(frozen=True)
class CheckedRun:
    """A run's quality reports at a party.

    Attributes:
        changed: When the last one was written, in seconds since 1970.
        federation: Name of the federation.
        run: Id of the run.
        home: The party's home folder.
    """

    changed: float
    federation: str
    run: str
    home: Path

    @property
    def at(self) -> str:
        """When the last report was written."""
        return datetime.fromtimestamp(self.changed, UTC).isoformat(timespec="seconds")

    @property
    def folder(self) -> Path:
        """Folder of the reports."""
        return self.home / self.federation / self.run / "quality"


def build(party: str, query: Query) -> list[Block]:
    """Return a party's reports, newest run first.

    Args:
        party: Name of the party.
        query: The content to show.
    """
    site, _ = site_of(party)
    runs = [
        run for run in _checked_runs(site.home, query.run) if query.wants(run.federation, run.run)
    ]
    if not runs:
        return [Note("muted", "No check has run yet.")]
    page, pager = query.paged(runs, _RUNS)
    checked = [(run, _verdicts(run.folder)) for run in page]
    names = sorted({name for _, verdicts in checked for name in verdicts}, key=_boundary_order)
    failed = sum(
        not verdict.startswith("passed") for _, verdicts in checked for verdict in verdicts.values()
    )
    checks = sum(len(verdicts) for _, verdicts in checked)
    facts = Facts(
        (
            Fact("Runs", f"{len(runs):,}"),
            Fact("Checks shown", f"{checks:,}"),
            Fact(
                "Not passed",
                f"{failed:,}",
                "of the checks shown",
                state="bad" if failed else "good",
            ),
        )
    )
    show_federation = len({run.federation for run in runs}) > 1
    table = Table(
        "checks",
        "Checks",
        (
            "last (UTC)",
            "run",
            *(["federation"] if show_federation else []),
            *(name.replace("_", " ") for name in names),
        ),
        [
            (
                moment(run.at),
                Cell(run.run, href=f"run?id={run.run}"),
                *([Cell(run.federation)] if show_federation else []),
                *(_verdict_cell(party, run, name, verdicts) for name in names),
            )
            for run, verdicts in checked
        ],
        "A failed check stops the run before anything of that stage is published. Open one to see "
        "its expectations, with counts.",
        pager=pager,
        once=("run",) if query.run else (),
    )
    return [facts, table]


def run_blocks(party: str, federation: str, run: str) -> list[Block]:
    """Return a run's checks for the page of the run.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run.
    """
    query = Query(lambda _: True, federation=federation, run=run)
    return [block for block in build(party, query) if isinstance(block, Table)]


def report(party: str, federation: str, run: str, boundary: str) -> list[Block]:
    """Return a report: all expectations, and the table's profile.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run.
        boundary: Name of the boundary.
    """
    result = Report(json.loads(report_file(party, federation, run, boundary, "json")))
    start = f"quality/{party}/{federation}/{run}/{boundary}"
    if result.suite == SUITE and result.profile:
        site, _ = site_of(party)
        earlier = [r.folder for r in _checked_runs(site.home) if r.federation == federation]
        return [*drift_report(result.profile, _folders_until(earlier, run)), kept_report(start)]
    return [*report_blocks(result), kept_report(start)]


def _folders_until(folders: Sequence[Path], run: str) -> Sequence[Path]:
    """Return the report folders of a run and of earlier ones, newest first."""
    at = [place for place, folder in enumerate(folders) if folder.parent.name == run]
    return folders[at[0] :] if at else folders


def report_file(party: str, federation: str, run: str, boundary: str, suffix: str) -> bytes:
    """Return a report's file.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run.
        boundary: Name of the boundary.
        suffix: ``json`` or ``html``.

    Raises:
        ContractError: There is no such report, or a name is malformed.
    """
    site, _ = site_of(party)
    valid = _FEDERATION.fullmatch(federation) and _RUN.fullmatch(run)
    if valid and _BOUNDARY.fullmatch(boundary) and suffix in ("json", "html"):
        path = site.home / federation / run / "quality" / f"{boundary}.{suffix}"
        if path.is_file():
            return path.read_bytes()
    raise ContractError("There is no such report.", "Its run may have been removed.")


def _checked_runs(home: Path, run: str | None = None) -> list[CheckedRun]:
    """Return all runs with reports, newest first, or a given one; reads no report."""
    folders = []
    for federation in _folder_names(home, _FEDERATION):
        for name in [run] if run else _folder_names(home / federation, _RUN):
            # For ten thousand runs, Path objects would cost more than the calls of stat.
            with contextlib.suppress(OSError):
                at = os.stat(f"{home}/{federation}/{name}/quality").st_mtime
                folders.append((at, federation, name))
    return [CheckedRun(*entry, home) for entry in sorted(folders, reverse=True)]


def _folder_names(parent: Path, form: re.Pattern[str]) -> list[str]:
    if not parent.is_dir():
        return []
    with os.scandir(parent) as entries:
        return [entry.name for entry in entries if form.fullmatch(entry.name) and entry.is_dir()]


def _verdicts(folder: Path) -> dict[str, str]:
    """Return the verdict by boundary; ``damaged`` for an unreadable report."""
    verdicts: dict[str, str] = {}
    for path in folder.glob("*.json"):
        if not _BOUNDARY.fullmatch(path.stem):
            continue
        try:
            report = Report(json.loads(path.read_bytes()))
            verdicts[path.stem] = _verdict(report)
        except (OSError, ValueError, KeyError, TypeError):
            verdicts[path.stem] = "damaged"
    return verdicts


def _verdict(report: Report) -> str:
    if not report.passed:
        return "failed"
    if not report.warnings:
        return "passed"
    return "drifted" if report.suite == SUITE else f"passed, {report.warnings:,} warnings"


def _boundary_order(boundary: str) -> tuple[int, str]:
    places = [at for at, name in enumerate(_ORDER) if boundary.startswith(name)]
    return (places[0] if places else len(_ORDER), boundary)


def _verdict_cell(party: str, run: CheckedRun, name: str, verdicts: Mapping[str, str]) -> Cell:
    verdict = verdicts.get(name, "")
    if verdict in ("", "damaged"):
        return Cell(verdict, "" if not verdict else None, state="warn" if verdict else "")
    href = f"quality/{party}/{run.federation}/{run.run}/{name}"
    states: dict[str, State] = {"passed": "good", "failed": "bad"}
    return Cell(verdict, state=states.get(verdict, "warn"), href=href)


def drift_report(profile: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> list[Block]:
    """Return a run's drift by feature, and its history.

    Args:
        profile: Profile of the report.
        folders: Report folders of the federation's runs, newest first, including this run's.
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
            *(
                _share_cell(of[name])
                for name in ("missing_then", "missing", "clipped_then", "clipped")
            ),
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
    """Return a plot of the drift index by feature over runs; empty for fewer than two runs.

    Args:
        folders: Report folders of a federation's runs, newest first.
    """
    history: list[tuple[str, dict[str, float]]] = []
    limits: list[float] = []
    for folder in folders[:_DRIFT_RUNS]:
        try:
            path = folder / "drift.json"
            rows = Report(json.loads(path.read_bytes())).profile
            day = f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d}"
            history.append((day, {r["column"]: float(r["index"]) for r in rows}))
            limits += [float(r["most"]) for r in rows]
        except (OSError, ValueError, KeyError, TypeError):
            # Not every run compares tables, and damaged reports are shown on their own pages.
            continue
    history.reverse()
    if len(history) < 2:
        return []
    most: dict[str, float] = {}
    for _, indices in history:
        for name, index in indices.items():
            most[name] = max(index, most.get(name, 0.0))
    names = sorted(most, key=lambda name: -most[name])[:CURVE_KINDS]
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


def _share_cell(value: Any) -> Cell:
    return Cell(f"{100 * float(value):.2f} %", float(value))


def kept_report(start: str) -> Links:
    """Return a link to the report as the run wrote it.

    Args:
        start: Path of the page.
    """
    return Links((("The report at home", f"{start}.html"),))
