"""What a run's first task pays to hold a party's books against what lies beside them.

A small federation runs once; then its past is made longer: lines of the ledger, entries of the
audit log, homes of runs, and people in the cell states. Its part of the check is timed on each.
"""

import argparse
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from opboost_ops.run.first_check import gaps_before

from opboost_ops.config.columns import columns_of
from opboost_ops.config.loading import load_federation, load_policy, load_site
from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.exchange.books import agreements_of, open_books
from opboost_ops.exchange.store import open_store
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.events import Release
from opboost_ops.run import gaps
from opboost_ops.run.local import run_federation
from opboost_ops.run.publication import Publisher

PARTY = "bank"


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365, help="runs of the past")
    parser.add_argument("--people", type=int, default=1_000_000, help="in each cell state")
    parser.add_argument("--repeats", type=int, default=5, help="the least is printed")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measured(Path(folder), options)
    print(json.dumps(result, indent=None if options.json else 1))


def measured(folder: Path, options: Any) -> dict[str, Any]:
    """Milliseconds of the wall's clock and of the processor, with a short and a long past."""
    file = write_workspace(load("credit", seed=0, rows=400), folder / "w")
    run = run_federation(file, {}).run
    short = spent(file, options.repeats)
    lengthen(file, run, options.nights, options.people)
    long = spent(file, options.repeats)
    begin = time.perf_counter()
    gaps.check(load_site(file.parent / PARTY / "site.yaml"))
    whole = time.perf_counter() - begin
    return {
        "nights": options.nights,
        "people": options.people,
        "after_one_run_ms": short,
        "after_all_ms": long,
        "whole_check_seconds": round(whole, 2),
        "load": os.getloadavg()[0],
    }


def spent(file: Path, repeats: int) -> dict[str, float]:
    """The least of some tries; the first one is not counted."""
    site = load_site(file.parent / PARTY / "site.yaml")
    party = Publisher(PARTY, site, load_policy(file.parent / PARTY / "policy.yaml"),
                      open_store(site.store))  # fmt: skip
    federation = load_federation(file)
    found = []
    for _ in range(repeats + 1):
        wall, processor = time.perf_counter(), time.process_time()
        lost = gaps_before(party, federation, "f" * 16, {})
        found.append((time.perf_counter() - wall, time.process_time() - processor))
        assert lost == [], lost
    wall, processor = (min(times) for times in zip(*found[1:], strict=True))
    return {"wall": round(wall * 1000, 1), "processor": round(processor * 1000, 1)}


def lengthen(file: Path, run: str, nights: int, people: int) -> None:
    """Lines, entries and homes as of many nights, and cell states of many people."""
    site = load_site(file.parent / PARTY / "site.yaml")
    federation = load_federation(file)
    home = site.home / federation.name
    with open_books(site) as books:
        mine = [line for line in books.ledger.releases() if line.run == run]
        entries = [entry for _, entry, _ in books.audit.entries()]
        with books.together():
            for night in range(nights):
                name = hashlib.sha256(str(night).encode()).hexdigest()[:16]
                books.ledger.reserve([again(line, name) for line in mine])
                for entry in entries:
                    books.audit.add("received", entry.place, entry.party, entry.artifact)
        widen(books.cells, site, federation, people)
    for night in range(nights):
        name = hashlib.sha256(str(night).encode()).hexdigest()[:16]
        shutil.copytree(home / run, home / name)
    os.utime(home / run)


def again(line: Release, run: str) -> Release:
    """The line as of another run; draws are charged once, so it is told as an exact one."""
    artifact = hashlib.sha256(f"{run}/{line.kind}/{line.feature}".encode()).hexdigest()
    facts = line.model_dump(include={"federation", "party", "receiver", "kind", "rows"})
    return Release(
        **facts, run=run, artifact=artifact, account="exact", discloses="a line of the past"
    )


def widen(cells: Any, site: Any, federation: Any, people: int) -> None:
    """More people in each state, who release what they are given."""
    rng = np.random.default_rng(0)
    who = np.unique(rng.integers(0, 2**63, people).astype(np.uint64))
    policy = load_policy(site.home.parent / "policy.yaml")
    secret = noise.receiver_secret(site.noise_secret(), policy.noise_group(federation.label_holder))
    for column in columns_of(federation, PARTY, agreements_of(site).columns):
        key, domain = column.noise_context(secret), column.domain
        values = rng.integers(domain.lower, domain.upper + 1, len(who))
        cells.charge(column.uuid, key, who, values, domain)


if __name__ == "__main__":
    main()
