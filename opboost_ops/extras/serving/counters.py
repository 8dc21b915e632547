"""Counters of the endpoint for Prometheus: no value, no ID, nothing of a single row."""

import threading
from collections import Counter
from collections.abc import Iterator

from opboost_ops.quality.live import Live
from opboost_ops.reports.outcomes import Outcomes

#: Upper ends of the buckets of seconds a request.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class Counters:
    """Requests, rows and seconds since the start; threads may count at once."""

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
            status: Of its answer.
            seconds: How long it took.
        """
        with self._lock:
            self._requests[status] += 1
            self._seconds += seconds
            for end in _BUCKETS:
                self._within[end] += seconds <= end

    def row(self, refused: str, states: dict[str, str]) -> None:
        """Count a row.

        Args:
            refused: Why it has no score; empty if it has one.
            states: What became of each other party's values.
        """
        with self._lock:
            self._rows[refused or "scored"] += 1
            self._partners.update(states.items())

    def text(self, version: str, live: Live | None, outcomes: Outcomes | None) -> str:
        """All of it in Prometheus' text format.

        Args:
            version: The version in use; empty where there is none.
            live: That version in production.
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
