"""What pins take: seconds and memory of a first and later nights of all columns, bytes at rest.

Nights at the account's door: the first one pins everybody; in the second nobody is new; in the
third 1 % left and 1 % joined. Only the values of people without a pin are given.
"""

import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.measure import forget_peak, parser_of, show, status
from opboost_ops.config.columns import Column
from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.declarations import Declaration
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.loss import column_losses
from opboost_ops.privacy.people import Forgotten
from opboost_ops.privacy.pins import Pins
from opboost_ops.privacy.releases import Releases, RunRequest
from opboost_ops.tables.spill.arrays import Scratch

KEY = bytes(32)
DOMAIN = Domain(1, 10)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        show(measured(Path(folder), options.people, options.columns), options)


def measured(folder: Path, count: int, columns: int) -> dict[str, object]:
    """The figures of three nights."""
    database = Database(f"sqlite:///{folder / 'ledger.sqlite'}")
    pins = Pins(folder / "pins", Scratch(folder), lambda: KEY)
    releases = Releases(database, pins, Forgotten(database, lambda: KEY))
    declared = [declaration(f"x{number}") for number in range(columns)]
    rng = np.random.default_rng(0)
    everybody = rng.integers(0, 256, (count + count // 100, 16), dtype=np.uint8)
    values = {f"x{i}": rng.integers(1, 11, len(everybody), dtype=np.uint8) for i in range(columns)}
    policy = Policy(version=1, party="bank")
    found: dict[str, object] = {"people": count, "columns": columns}
    nights = (slice(0, count), slice(0, count), slice(count // 100, None))
    for number, (name, rows) in enumerate(zip(("first", "second", "joiners"), nights, strict=True)):
        people = everybody[rows]
        forget_peak()
        before, begin = status("VmRSS"), time.perf_counter()
        chosen = releases.choose(declared, "credit", date(2026, 1, 1), Budget(policy))
        wanted = np.flatnonzero(releases.unpinned(chosen.values(), people))
        read = {column: of[rows][wanted] for column, of in values.items()}
        request = RunRequest(
            federation="f",
            run=f"{number:016x}",
            party="bank",
            receiver="credit",
            day=date(2026, 1, 1),
            declarations=declared,
            people=people,
            rows=wanted,
            values=read,
        )
        releases.take(request, Budget(policy))
        found[f"{name}_seconds"] = round(time.perf_counter() - begin, 3)
        found[f"{name}_peak_bytes"] = status("VmHWM") - before
    found["bytes"] = sum(path.stat().st_size for path in pins.folder.iterdir())
    return found


def declaration(name: str) -> Declaration:
    """A numeric column."""
    mechanism = GlobalMap(name="global_map", epsilon=1.0)
    column = Column(name, name, name, DOMAIN, name, DOMAIN, mechanism, b"")
    return Declaration(
        name, name, name.encode().hex().zfill(64), (column,), column_losses([column])
    )


if __name__ == "__main__":
    main()
