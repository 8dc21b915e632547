"""What cell states take: bytes a person, and processor seconds of a night's draw of all columns.

Four draws of the same columns, each held back and charged as `privacy.draws` does it: the first
one; one in which 2 % of the values changed; one of other people (2 % left, 2 % came); and one of a
part of them. Seconds are of the processor, for all columns together.
"""

import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
from opboost_ops.privacy.cells import Cells

from benchmarks.measure import parser_of, show
from opboost_ops.domain import Domain
from opboost_ops.privacy.database import Database

CONTEXT = bytes(32)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--domain", type=int, default=10, help="size of the columns' domain")
    parser.add_argument("--changes", type=int, default=3, help="cap on changes of a cell")
    parser.add_argument("--encrypted", action="store_true", help="under a key at rest")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    domain = Domain(1, options.domain)
    # A fiftieth of them comes only later.
    everybody = np.unique(rng.integers(0, 2**64, options.people * 51 // 50, dtype=np.uint64))
    late = rng.permutation(len(everybody)) % 51
    nights = {"first": late != 0, "changed": late != 0, "others": late != 1, "part": late > 25}
    values = [rng.integers(1, domain.upper + 1, len(everybody)) for _ in range(options.columns)]
    found: dict[str, object] = {"people": options.people, "columns": options.columns}
    with tempfile.TemporaryDirectory() as folder:
        for name, there in nights.items():
            if name != "first":
                for column in values:
                    moved = rng.random(len(column)) < 0.02
                    column[moved] = rng.integers(1, domain.upper + 1, int(moved.sum()))
            key = bytes(32) if options.encrypted else None
            column_values = [v[there] for v in values]
            found[name] = night(
                Path(folder), everybody[there], column_values, domain, options.changes, key
            )
    show(found, options)


def night(
    folder: Path,
    people: np.ndarray,
    values: list[np.ndarray],
    domain: Domain,
    most: int,
    key: bytes | None,
) -> dict[str, float]:
    """One draw of all columns.

    Args:
        folder: Where the cell states lie.
        people: Keyed hashes, rising, shape (n,).
        values: By column, shape (n,) each.
        domain: Theirs.
        most: The cap on changes.
        key: Under which files are encrypted at rest; none when absent.
    """
    database = Database(f"sqlite:///{folder}/ledger.sqlite")
    cells = Cells(folder / "cells", database, key=key)
    begin = time.process_time()
    held = [
        cells.hold(uuid.UUID(int=i), CONTEXT, people, column, domain, most)
        for i, column in enumerate(values)
    ]
    between = time.process_time()
    with database.writing():
        for i, column in enumerate(held):
            cells.charge(uuid.UUID(int=i), CONTEXT, people, column, domain)
    cells.collect()
    end = time.process_time()
    size = sum(path.stat().st_size for path in (folder / "cells").iterdir())
    return {
        "hold_seconds": round(between - begin, 3),
        "charge_seconds": round(end - between, 3),
        "bytes_a_person": round(size / len(people), 2),
    }


if __name__ == "__main__":
    main()
