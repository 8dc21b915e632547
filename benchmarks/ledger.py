"""How a ledger grows: processor seconds of a fresh process by lines, after so many nights.

A night has five draws, ten lines of randomised artifacts and five that cost nothing; from the third
night on the cap on changes lets draws add nothing, as `max_changes: 2` does.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from opboost_ops.privacy.accountant import accounts

from benchmarks.measure import parser_of, show
from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import LedgerEntry
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.tables import METADATA

COLUMNS = {uuid.UUID(int=i): f"f{i}" for i in range(1, 6)}
KEY = "0" * 16


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return
    found = []
    for lines in options.lines:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'ledger.sqlite'}"
            fill(url, lines // 20)
            # What a process has read it knows: each task of a run is one of its own.
            words = [sys.executable, __file__, "--measure", url]
            told = subprocess.run(words, check=True, capture_output=True, text=True)
            found.append({"lines": lines, **json.loads(told.stdout)})
    show(found, options)


def fill(url: str, nights: int) -> None:
    """A ledger after so many nights."""
    curve = loss_curve(GlobalMap(epsilon=1.0), Domain(1, 10))
    rows: dict[str, list[dict[str, Any]]] = {"releases": [], "commits": []}
    for night in range(1, nights + 1):
        for i, line in enumerate(of_a_night(night, curve)):
            event = line.model_dump(mode="json")
            at = {"recorded_at": "2026-01-01T00:00:00+00:00", "artifact": line.artifact}
            rows["releases"].append({**at, "feature": line.feature or "", "event": event})
            rows["commits"].append({"artifact": f"{night}.{i}", "committed_at": at["recorded_at"]})
    with Database(url).writing() as connection:
        for name, lines in rows.items():
            connection.execute(sa.insert(METADATA.tables[name]), lines)


def of_a_night(night: int, curve: Any) -> list[LedgerEntry]:
    """Twenty lines."""
    facts: dict[str, Any] = {
        "federation": "credit",
        "run": f"{night:016x}",
        "party": "bank",
        "receiver": "credit",
        "rows": 1000,
        "experiment": False,
    }
    found = []
    for i, (column, feature) in enumerate(COLUMNS.items()):
        of: dict[str, Any] = {
            **facts,
            "account": "local_dp",
            "feature": feature,
            "column": column,
            "cells": KEY,
            "loss": curve,
        }
        name = f"{night}.{i}"
        draw = Draw(
            number=night,
            most=2,
            added=int(night <= 2),
            worst=min(night, 2),
            inputs=10,
            stands_for=1,
        )
        found.append(LedgerEntry(**of, kind="draw", artifact=name, draws=name, draw=draw))
    for i in range(10):
        of = {**facts, "account": "local_dp", "feature": list(COLUMNS.values())[i // 2]}
        of |= {"column": list(COLUMNS)[i // 2], "cells": KEY, "loss": curve}
        found.append(
            LedgerEntry(**of, kind="ranks", artifact=f"{night}.{5 + i}", draws=f"{night}.{i // 2}")
        )
    for i in range(15, 20):
        found.append(LedgerEntry(**facts, kind="plan", artifact=f"{night}.{i}", account="exact"))
    return found


def measured(url: str) -> dict[str, float]:
    """Processor seconds of what a run and a page ask of a ledger."""
    ledger = Ledger(Database(url))
    budget = {"budget_whole": 100.0, "max_changes": 2}
    policy = Policy.model_validate(
        {
            "version": 1,
            "party": "bank",
            "features": {name: {"mechanisms": ["global_map"], **budget}
                         for name in COLUMNS.values()},
        }
    )  # fmt: skip
    curve = loss_curve(GlobalMap(epsilon=1.0), Domain(1, 10))
    new = of_a_night(10**6, curve)
    begin = time.process_time()
    ledger.reserve(new[5:15], Budget(policy, COLUMNS))
    reserved = time.process_time()
    ledger.reserve(new[:5], Budget(policy, COLUMNS))
    charged = time.process_time()
    releases = ledger.releases()
    read = time.process_time()
    accounts(releases)
    added = time.process_time()
    return {
        "reserve_seconds": round(reserved - begin, 3),
        "charge_seconds": round(charged - reserved, 3),
        "page_reads_all_seconds": round(read - charged, 3),
        "page_adds_up_seconds": round(added - read, 3),
    }


if __name__ == "__main__":
    main()
