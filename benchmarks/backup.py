"""What an encrypted backup of a state costs, beside reading and hashing the same bytes once.

The state has one column of many people and a ledger of a few years. Seconds are the processor's;
`waiting` is how long writers of the ledger wait while the moment is fixed, by the wall's clock.
"""

import argparse
import hashlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from opboost_ops.backup import writing
from opboost_ops.backup.encryption import Key, Lock
from opboost_ops.backup.restoring import restore
from opboost_ops.backup.second_names import SecondNames
from opboost_ops.config.loading import load_site
from opboost_ops.datasets.workspace import site_data, write_keys
from opboost_ops.domain import Domain
from opboost_ops.exchange.books import open_books
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import loss_curve

PASSPHRASE = "correct horse battery"
DOMAIN, COLUMN = Domain(1, 10), uuid.UUID(int=1)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--lines", type=int, default=5_000, help="of the ledger")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        result = measure(Path(made), options.people, options.lines)
    print(json.dumps(result, indent=None if options.json else 1))


def measure(folder: Path, people: int, lines: int) -> dict[str, Any]:
    """Make the books, back them up, and put them back into an empty place."""
    site = folder / "bank"
    fill(site, people, lines)
    waiting: list[float] = []
    take = SecondNames.take

    def timed(self: SecondNames) -> None:
        begin = time.perf_counter()
        take(self)
        waiting.append(time.perf_counter() - begin)

    SecondNames.take = timed  # type: ignore[method-assign]
    target = folder / "bank.backup"
    backed = spent(lambda: writing.back_up(site, target, Lock(PASSPHRASE)))
    elsewhere = folder / "empty"
    elsewhere.mkdir()
    restored = spent(lambda: restore(elsewhere, target, Key(PASSPHRASE)))
    hashed = spent(lambda: hash_of(target))
    return {
        "cells": people,
        "lines": lines,
        "cells_bytes": sum(path.stat().st_size for path in (site / "cells").iterdir()),
        "backup_bytes": target.stat().st_size,
        "backup_seconds": backed,
        "restore_seconds": restored,
        "hash_seconds": hashed,
        "backup_over_hash": round(backed / hashed, 2),
        "restore_over_hash": round(restored / hashed, 2),
        "waiting_seconds": round(waiting[0], 4),
        "load": os.getloadavg()[0],
    }


def fill(site: Path, people: int, lines: int) -> None:
    """Cell states and a ledger."""
    site.mkdir()
    write_keys(site / "keys")
    data = site_data("bank", "credit", Path("tables/train.parquet"))
    (site / "site.yaml").write_text(yaml.safe_dump(data))
    (site / "policy.yaml").write_text("version: 1\nparty: bank\n")
    rng = np.random.default_rng(0)
    who = np.unique(rng.integers(0, 2**63, people).astype(np.uint64))
    curve = loss_curve(GlobalMap(epsilon=0.5), DOMAIN)
    with open_books(load_site(site / "site.yaml")) as books, books.together():
        books.cells.charge(COLUMN, bytes(32), who, rng.integers(1, 11, len(who)), DOMAIN)
        books.ledger.reserve(
            [
                Release(
                    federation="credit",
                    run=f"{number:016x}",
                    party="bank",
                    receiver="lender",
                    kind="ranks",
                    artifact=hashlib.sha256(str(number).encode()).hexdigest(),
                    account="local_dp",
                    feature="age",
                    column=COLUMN,
                    loss=curve,
                    rows=people,
                )
                for number in range(lines)
            ]
        )


def spent(work: Callable[[], Any]) -> float:
    """Seconds of the processor."""
    begin = time.process_time()
    work()
    return round(time.process_time() - begin, 3)


def hash_of(path: Path) -> str:
    """SHA-256 of a file, block by block."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


if __name__ == "__main__":
    main()
