"""Whether a former tree and this one make the same files, to the byte.

The former tree makes one federation with a feature of each mechanism, so that this tree finds it as
after an upgrade. It is copied twice; each copy is run with one tree's code: training, scoring,
training on tables of which a third of the cells have changed, and training again on the same
tables, under the same keys, seeds and run ids. Then all files of both copies are compared:
artifacts, homes, models, scores, cell states, and the database's rows. Times are left out; anything
else that differs is listed, and the command ends with 1.

A former tree is a git worktree; it runs in its own environment, ``.venv``, where it has one.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.federation import Purpose

HERE = Path(__file__).resolve().parent.parent
LABELS, NAME, HOLDERS = "credit", "equal", ("bank", "shop")
#: When something happened, or how long it took.
TIMES = re.compile(
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+]00:00|Z)?|\"\w*seconds\": [\d.e-]+"
)
#: Columns of a database that follow from times: the audit log's chain binds them.
HIDDEN = {"audit": ("hash",)}
RUNS: tuple[tuple[str, Purpose], ...] = (
    ("first", "train"),
    ("score", "score"),
    ("changed", "train"),
    ("same", "train"),
)


def main() -> int:
    """Run both trees and list what differs.

    Returns:
        0, or 1 if anything differs.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("former", type=Path, help="another tree")
    parser.add_argument("--rows", type=int, default=2000, help="people of the label holder")
    parser.add_argument("--step", choices=["make", "run"], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step == "make":
        prepare(asked.former, asked.rows)
    elif asked.step == "run":
        run(asked.former)
    if asked.step:
        return 0
    former = asked.former.resolve()
    with tempfile.TemporaryDirectory() as folder:
        made, place, found = Path(folder) / "made", Path(folder) / "w", []
        start(former, made, "make", asked.rows)
        for tree in (former, HERE):
            # Both at one place: paths may be in what they write.
            shutil.copytree(made, place, symlinks=True)
            start(tree, place, "run", asked.rows)
            found.append(dict(contents(place)))
            shutil.rmtree(place)
    return report(*found)


def start(tree: Path, place: Path, step: str, rows: int) -> None:
    """Do one step of this file with the code of a tree, in its environment."""
    python = tree / ".venv/bin/python"
    command = [python if python.exists() else sys.executable, __file__, place, "--step", step]
    subprocess.run(
        [*command, "--rows", str(rows)],
        env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tree,
        check=True,
    )


def report(former: dict[str, bytes], present: dict[str, bytes]) -> int:
    """Print how many are equal of each sort, and what differs."""
    names = sorted(former.keys() | present.keys())
    different = [name for name in names if former.get(name) != present.get(name)]
    every, wrong = (Counter(sort_of(name) for name in each) for each in (names, different))
    found = {sort: f"{every[sort] - wrong[sort]} of {every[sort]}" for sort in sorted(every)}
    print(json.dumps({"equal": found, "different": different}, indent=1))
    return int(bool(different))


def sort_of(name: str) -> str:
    """What a file is, by the folder that it is in: of a party's, the one below."""
    parts = Path(name).parts
    return parts[1] if parts[0] in declared() else parts[0]


def run(place: Path) -> None:
    """All runs, stage by stage, with the code of the tree that this process imports."""
    from opboost_ops.config.loading import load_federation
    from opboost_ops.run.inbox import Run
    from opboost_ops.run.opening import open_run
    from opboost_ops.run.party_sites import site_files
    from opboost_ops.run.phases import steps
    from opboost_ops.run.runner import run_stage

    # Keys of a month are drawn when they are first needed: in both trees the same ones.
    drawn = itertools.count()
    secrets.token_bytes = lambda size: hashlib.shake_256(b"%d" % next(drawn)).digest(size)
    file = place / "federation.yaml"
    federation = load_federation(file)
    for party, site in site_files(file, federation).items():
        os.environ[f"OPBOOST_SITE_{party.upper()}"] = str(site)
    for number, (name, purpose) in enumerate(RUNS):
        if name == "changed":
            for path in place.glob("*/tables/changed.parquet"):
                path.replace(path.with_name("train.parquet"))
        this = Run(NAME, f"{number:016x}", LABELS)
        open_run(file, this.run, {}, purpose)
        for party, stage in steps(federation, purpose):
            run_stage(party, stage, this)


def contents(place: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a copy, and every table of its databases, without times."""
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_dir() or path.parent.name == "timings" or path.suffix.endswith(("-wal", "-shm")):
            continue
        content = path.read_bytes()
        if content.startswith(b"SQLite format 3\0"):
            yield from rows_of(path, name)
        else:
            text = path.suffix in (".json", ".jsonl", ".html", ".txt")
            yield name, TIMES.sub(b"", content) if text else content


def rows_of(path: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """The tables of a database, without times."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (table,) in connection.execute(query).fetchall():
            cursor = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
            names = [column[0] for column in cursor.description]
            kept = [i for i, column in enumerate(names) if column not in HIDDEN.get(table, ())]
            rows = repr([[row[i] for i in kept] for row in cursor]).encode()
            yield f"{name}/{table}", TIMES.sub(b"", rows)


def declared() -> dict[str, dict[str, Any]]:
    """Features of all parties, with every mechanism."""
    bounds = {"bounds": [-3, 3]}
    filled = {"missing": {"fill": 0, "bit": {"epsilon": 0.5}}}
    homes = {"type": "nominal", "categories": ["rent", "own", "other"]}
    grades = {"type": "ordinal", "categories": ["low", "middle", "high"]}

    def by(name: str, **parameters: Any) -> dict[str, Any]:
        return {"mechanism": {"name": name, "epsilon": 1.0, **parameters}}

    return {
        LABELS: {"age": {}, "debt": {"missing": "keep"}, "job": {"type": "nominal"}},
        "bank": {
            "income": {**bounds, **by("global_map")},
            "amount": {**bounds, **by("adj_map", theta=4)},
            "gaps": {**bounds, **filled, **by("global_map")},
            "home": {**homes, **by("unary")},
        },
        "shop": {
            "visits": {**bounds, **by("local_map", theta=4)},
            "basket": {**bounds, **by("bucket_response", buckets=4)},
            "grade": {**grades, **by("grr")},
            "spent": {"bounds": [-3, 3], "scale": {"edges": [-2, -1, 0, 0.5, 2]}, **by("grr")},
            "late": {**bounds, **by("piecewise")},
        },
    }


def prepare(folder: Path, rows: int) -> None:
    """A workspace with tables to train on, new rows, and the changed tables beside them."""
    from opboost_ops.datasets.dataset import ID, Dataset
    from opboost_ops.datasets.workspace import write_workspace

    rng = np.random.default_rng(21)
    kinds, grades = ["rent", "own", "other"], ["low", "middle", "high"]

    def column(name: str, count: int) -> pl.Series:
        if name in ("job", "home", "grade"):
            return pl.Series(rng.choice(grades if name == "grade" else kinds, count))
        values = pl.Series(rng.normal(size=count).round(3))
        gaps = pl.Series(rng.random(count) < (0.05 if name in ("gaps", "debt") else 0))
        return pl.select(pl.when(~gaps).then(values)).to_series()

    many = rows + rows // 4
    uses = {"train": np.arange(many), "score": np.arange(many, many + rows // 2)}
    tables: dict[str, dict[str, pl.DataFrame]] = {"train": {}, "score": {}, "changed": {}}
    for (use, ids), (party, features) in itertools.product(uses.items(), declared().items()):
        # Nobody has everybody, and each has its people in an order of its own.
        own = rng.permutation(ids)[: len(ids) * 9 // 10]
        found = {ID: pl.Series([f"p{i:06d}" for i in own])}
        found |= {name: column(name, len(own)) for name in features}
        if party == LABELS and use == "train":
            found["label"] = pl.Series((rng.random(len(own)) < 0.4).astype(np.int64))
        tables[use][party] = pl.DataFrame(found)
        if use == "train":
            here = pl.Series(rng.random(len(own)) < 1 / 3)
            other = {name: column(name, len(own)).zip_with(here, found[name]) for name in features}
            tables["changed"][party] = pl.DataFrame({**found, **other})
    dataset = Dataset(
        name=NAME,
        task="binary",
        tables=tables["train"],
        label_holder=LABELS,
        label={"column": "label", "task": "binary", "classes": [0, 1]},
        features=declared(),
        holdout=0.25,
        epsilon=1.0,
        domain=(1, 16),
        new_rows=tables["score"],
    )
    write_workspace(dataset, folder, seed=21, training={"trees": 30, "depth": 3}, capped=False)
    for party, table in tables["changed"].items():
        table.write_parquet(folder / party / "tables" / "changed.parquet")


if __name__ == "__main__":
    sys.exit(main())
