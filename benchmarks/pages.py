"""What the pages cost the API server when a federation has a long past.

A small federation runs once; then its state, homes, models and Airflow's own list of runs are made
as long as asked. Each page is looked at in a process of its own, forked before any page was made:
once when that process knows nothing yet, and once more. Seconds are the processor's.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import forked, parser_of, show

#: Page, and where it is.
PAGES = {
    "status": "status",
    "status.json": "status.json",
    "ledger, one party": "ledger?party=bank",
    "ledger, three parties": "ledger",
    "models": "models",
    "version": "models/credit/credit_scoring/{last}",
    "version beside the champion": "models/credit/credit_scoring/{last}/beside/{before}",
    "exchange, one party": "exchange?party=bank",
    "exchange, three parties": "exchange",
    "data quality": "quality",
    "ledger of a month, one party": "ledger?since=2026-01-01&until=2026-01-31&party=bank",
    "ledger of a month, three parties": "ledger?since=2026-01-01&until=2026-01-31",
    "run": "run?id={last}",
}


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=20_000, help="of each party's ledger")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AIRFLOW_HOME"] = f"{folder}/airflow"
        os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
        result = measured(Path(folder), options.runs, options.lines)
    show(result, options)


def measured(folder: Path, runs: int, lines: int) -> dict[str, Any]:
    """Processor seconds of each page's first and second look."""
    entries = long_past(folder / "federation", runs, lines)
    look = logged_in()
    from sqlalchemy.orm import configure_mappers

    from tests.integration.orchestration.pages.long_history import airflow_runs, run_of

    airflow_runs(runs)
    # The imports of the first request are the server's, not a page's; that Airflow's tables are
    # made ready for questions is Airflow's own, whose pages ask before anybody gets to these.
    look("style.css")
    configure_mappers()
    # What made the past lies in this process: its collection is no page's work.
    gc.collect()
    gc.freeze()
    names = {"last": run_of(runs), "before": run_of(runs - 1)}
    seconds = {page: apart(look, path.format(**names)) for page, path in PAGES.items()}
    return {
        "runs": runs,
        "ledger_lines": lines,
        "audit_entries": entries,
        "seconds": seconds,
        "load": os.getloadavg()[0],
    }


def long_past(folder: Path, runs: int, lines: int) -> int:
    """Make the federation; how many entries the audit log of one party has."""
    from opboost_ops.config.loading import load_site
    from opboost_ops.exchange.party_state import open_state
    from tests.federation import Workspace
    from tests.integration.orchestration.pages.long_history import lengthen

    workspace = Workspace.write(folder)
    os.environ |= workspace.environment()
    workspace.all()
    lengthen(workspace, runs, lines)
    with open_state(load_site(folder / "bank" / "site.yaml")) as state:
        return state.audit.head()[0]


def logged_in() -> Callable[[str], None]:
    """What looks at a page as a reader."""
    os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = "a secret of this benchmark: " + "0" * 64
    from fastapi.testclient import TestClient

    from tests.integration.orchestration.pages.mounted import mounted, reader_token

    client = TestClient(mounted(), cookies={"_token": reader_token()})

    def look(path: str) -> None:
        reply = client.get(f"/opboost/{path}")
        assert reply.status_code == 200, reply.text

    return look


def apart(look: Callable[[str], None], path: str) -> dict[str, float]:
    """What two looks cost in a process that has made no page yet."""

    def looks() -> dict[str, float]:
        found = {}
        for name in ("first", "second"):
            begin = time.process_time()
            look(path)
            found[name] = round(time.process_time() - begin, 3)
        return found

    return forked(looks)


if __name__ == "__main__":
    main()
