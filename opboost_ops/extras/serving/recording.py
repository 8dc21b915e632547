"""Counts of single rows that were scored: by day in the home, and for Prometheus.

Rows are buffered in memory until the next refresh counts them, so that a row costs microseconds.
Only counts by bins are stored, without rows, IDs or values.
"""

import fcntl
import json
import logging
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from opboost_ops.extras.serving.loaded_version import LoadedVersion, Scored
from opboost_ops.extras.serving.rows import STATES
from opboost_ops.learning.registry.registry import DISTRIBUTIONS
from opboost_ops.pipeline.evaluation.scores import SCORE
from opboost_ops.pipeline.home import Home
from opboost_ops.quality import drift
from opboost_ops.quality.live import (
    SERVED,
    Counts,
    Live,
    PartnerCounts,
    columns_of,
    counts_of,
    profile_of,
)
from opboost_ops.reports.outcomes import Outcomes
from opboost_ops.tables.spill.files import private_folder

#: Upper bounds of the histogram's buckets, in seconds per request.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)

#: Number of buffered rows that are counted without waiting for the next refresh.
_MAX_BUFFERED = 20_000

_LOG = logging.getLogger("opboost_ops")

#: A version and its mode of scoring.
_Key = tuple[str, str]


class Counters:
    """Thread-safe counters of requests, rows and seconds since the start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[int] = Counter()
        self._rows: Counter[str] = Counter()
        self._partners: Counter[tuple[str, str]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0

    def request(self, status: int, seconds: float) -> None:
        """Count a request for scores.

        Args:
            status: HTTP status of the response.
            seconds: Duration of the request.
        """
        with self._lock:
            self._requests[status] += 1
            self._seconds += seconds
            for end in _BUCKETS:
                self._within[end] += seconds <= end

    def row(self, refused: str, states: dict[str, str]) -> None:
        """Count a row.

        Args:
            refused: Reason why it has no score; empty if it has one.
            states: State of each other party's values.
        """
        with self._lock:
            self._rows[refused or "scored"] += 1
            self._partners.update(states.items())

    def text(self, version: str, live: Live | None, outcomes: Outcomes | None) -> str:
        """Return all counters in Prometheus' text format.

        Args:
            version: The version in use; empty if there is none.
            live: Counts of this version in production.
            outcomes: Its report on outcomes.
        """
        with self._lock:
            lines = [*self._lines(version), *(_live_lines(live) if live else ())]
            if outcomes is not None:
                lines.append("# TYPE opboost_live_outcomes gauge")
                for name, span in sorted(outcomes.metrics.items()):
                    lines.append(f'opboost_live_outcomes{{metric="{name}"}} {span.value}')
            return "\n".join([*lines, ""])

    def _lines(self, version: str) -> Iterator[str]:
        yield "# TYPE opboost_serve_requests_total counter"
        for status, count in sorted(self._requests.items()):
            yield f'opboost_serve_requests_total{{status="{status}"}} {count}'
        yield "# TYPE opboost_serve_rows_total counter"
        for outcome, count in sorted(self._rows.items()):
            yield f'opboost_serve_rows_total{{outcome="{outcome}"}} {count}'
        yield "# TYPE opboost_serve_partner_rows_total counter"
        for (party, state), count in sorted(self._partners.items()):
            named = f'party="{party}",state="{state}"'
            yield f"opboost_serve_partner_rows_total{{{named}}} {count}"
        yield "# TYPE opboost_serve_seconds histogram"
        total = sum(self._requests.values())
        for end in _BUCKETS:
            yield f'opboost_serve_seconds_bucket{{le="{end}"}} {self._within[end]}'
        yield f'opboost_serve_seconds_bucket{{le="+Inf"}} {total}'
        yield f"opboost_serve_seconds_sum {self._seconds:.6f}"
        yield f"opboost_serve_seconds_count {total}"
        if version:
            yield "# TYPE opboost_serve_version gauge"
            yield f'opboost_serve_version{{version="{version}"}} 1'


def _live_lines(live: Live) -> Iterator[str]:
    yield "# TYPE opboost_live_rows gauge"
    yield f"opboost_live_rows {live.rows}"
    shifts = [("score", live.scores), *(("column", column) for column in live.columns)]
    present = [(f'{{of="{of}",name="{shift.name}"}}', shift) for of, shift in shifts if shift]
    yield "# TYPE opboost_live_index gauge"
    yield from (f"opboost_live_index{named} {shift.index}" for named, shift in present)
    yield "# TYPE opboost_live_index_by_chance gauge"
    yield from (f"opboost_live_index_by_chance{named} {shift.chance}" for named, shift in present)
    yield "# TYPE opboost_live_partner_age_days gauge"
    for partner in live.partners:
        if partner.mean_days is not None:
            named = f'party="{partner.party}"'
            yield f"opboost_live_partner_age_days{{{named}}} {partner.mean_days}"


class Recorder:
    """Counts scored rows; thread-safe.

    Args:
        home: The label holder's folder of the federation.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._adding, self._counting = threading.Lock(), threading.Lock()
        self._waiting: list[tuple[LoadedVersion, Scored]] = []
        self._rows = 0
        self._counts: dict[_Key, Counts] = {}
        self._failed = False

    def add(self, served: LoadedVersion, scored: Scored) -> None:
        """Buffer rows to be counted.

        Args:
            served: The version that scored them.
            scored: The scored rows.
        """
        with self._adding:
            self._waiting.append((served, scored))
            self._rows += len(scored.refused)
            is_full = self._rows >= _MAX_BUFFERED
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Count buffered rows into the records of the day; on errors, keep the counts."""
        with self._counting:
            with self._adding:
                waiting, self._waiting, self._rows = self._waiting, [], 0
            parts: dict[_Key, list[tuple[LoadedVersion, Scored]]] = defaultdict(list)
            for served, scored in waiting:
                parts[served.version, served.mode].append((served, scored))
            keys, failure = {*self._counts, *parts}, ""
            for key in keys:
                try:
                    if key in parts:
                        before = self._counts.get(key, Counts())
                        self._counts[key] = before + self._counted(parts[key])
                    self._keep(key, self._counts[key])
                    del self._counts[key]
                except (OSError, ValueError, LookupError, TypeError, PolarsError) as error:
                    # Scoring continues although rows cannot be counted.
                    failure = type(error).__name__
            if failure and not self._failed:
                _LOG.warning(
                    "Scored rows cannot be counted (%s), and are missing on their version's page. "
                    "Check the folders distributions and profiles of the label holder's home.",
                    failure,
                )
            if keys:
                self._failed = bool(failure)

    def _counted(self, some: Sequence[tuple[LoadedVersion, Scored]]) -> Counts:
        served = some[0][0]
        features = profile_of(self._home, served.version).features
        bins = {name: features[name] for name in served.own_features if name in features}
        frames: dict[tuple[object, ...], list[pl.DataFrame]] = defaultdict(list)
        scores, refused = [], 0
        for _, scored in some:
            done = scored.refused == ""
            scores.append(scored.table.column(SCORE).to_numpy()[done])
            refused += int(len(done) - done.sum())
            rows = scored.rows if done.all() else scored.rows.filter(pl.Series(done))
            frames[tuple(rows.schema.items())].append(rows)
        alike = [pl.concat(group) for group in frames.values()]
        columns = drift.counted(
            lambda names: (f.select(names) for f in alike), served.own_features, bins
        )
        every = [scored for _, scored in some]
        return counts_of(
            self._home,
            served.version,
            served.mode,
            served.task,
            np.concatenate(scores),
            refused=refused,
            columns=columns_of(columns),
            partners={party: _partner(party, every) for party in every[0].states},
        )

    def _keep(self, key: _Key, counts: Counts) -> None:
        version, mode = key
        folder = self._home / DISTRIBUTIONS / version
        private_folder(folder)
        name = f"{SERVED}{datetime.now(UTC):%Y-%m-%d}-{mode}"
        with open(os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
            # Several processes may serve one federation.
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = folder / f"{name}.json"
            if path.is_file():
                counts = Counts.model_validate(json.loads(path.read_bytes())["live"]) + counts
            document = {"mode": mode, "live": counts.model_dump(mode="json")}
            Home(folder).write_json(name, document)


def _partner(party: str, some: Sequence[Scored]) -> PartnerCounts:
    # Count a forgotten person as refused only.
    counted = [scored.refused != "forgotten" for scored in some]
    pairs = list(zip(some, counted, strict=True))
    states = np.concatenate([scored.states[party][rows] for scored, rows in pairs])
    ages = np.concatenate([scored.age_days[party][rows] for scored, rows in pairs])
    ages = ages[~np.isnan(ages)]
    counts = np.bincount(states, minlength=len(STATES)).tolist()
    return PartnerCounts(
        states=dict(zip(STATES, counts, strict=True)), aged=len(ages), days=float(ages.sum())
    )
