"""Horizontal learning by a process per party: elapsed and processor seconds, rounds and bytes.

The generated lenders with a column more, so that there are eleven with the bits of the nominal one.
They train as in any run; the figures are those of the stage `boost`.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import lightgbm
import numpy as np
import polars as pl
import yaml

from benchmarks.measure import parser_of, show
from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.extras.datasets.workspace import agree_for_all, column_uuid, dump
from opboost_ops.pipeline.runner.local import run_federation

COLUMNS = 11
HELD_OUT = 0.2


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8192, help="to train on, of all parties")
    options = parser.parse_args()
    result = {**vars(options), "load": round(os.getloadavg()[0], 1), **measured(options)}
    show(result, options)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """One training, and LightGBM's on a table of the same size.

    Returns:
        ``wall`` seconds of the slowest party, ``processor_seconds`` of all, of the ``active`` party
        and, on average, of ``each_other``, ``bytes_of_one`` of the others, how many ``messages``
        all have sent, and in how many ``rounds``.
    """
    training = {"trees": options.trees, "depth": options.layers, "holdout": HELD_OUT}
    with tempfile.TemporaryDirectory() as folder:
        rows = round(options.rows / (1 - HELD_OUT))
        names = {"parties": options.parties, "rows": rows, "seed": 0}
        file = write_lenders(Path(folder) / "lenders", **names, training=training)
        widen(file)
        finished = run_federation(file, {})
    active, *others = (spent["boost"] for spent in finished.spent.values())
    told = [stages["boost"] for stages in finished.summaries.values()]
    used = [spent["processor_seconds"] for spent in others]
    messages = sum(of["messages"] for of in told)
    return {
        "wall": round(finished.seconds()["boost"], 3),
        "processor_seconds": round(active["processor_seconds"] + sum(used), 3),
        "active": round(active["processor_seconds"], 3),
        "each_other": round(fmean(used), 3),
        "bytes_of_one": told[1]["bytes"],
        "messages": messages,
        "rounds": messages // options.parties - 1,
        "lightgbm": round(alone(options), 3),
    }


def widen(file: Path) -> None:
    """Add a numeric column to all tables and to the declaration."""
    declared = yaml.safe_load(file.read_text())
    uuid = column_uuid(declared["name"], "all", "signal")
    (active,) = (party for party in declared["parties"].values() if party["role"] == "active")
    active["features"]["signal"] = {"uuid": uuid, "bounds": [-5, 5]}
    dump(file, declared)
    random = np.random.default_rng(0)
    for path in file.parent.glob("*/tables/*.parquet"):
        table = pl.read_parquet(path)
        signal = pl.Series("signal", random.normal(size=table.height))
        table.with_columns(signal).write_parquet(path)
    agree_for_all(file)


def alone(options: argparse.Namespace) -> float:
    """Seconds of LightGBM on as many rows and columns."""
    matrix = np.random.default_rng(0).integers(1, 65_537, (options.rows, COLUMNS)).astype(float)
    label = (matrix[:, 0] > matrix[:, 1]).astype(float)
    stock = {"objective": "binary", "max_depth": options.layers, "num_threads": 1, "verbosity": -1}
    begin = time.perf_counter()
    rows = lightgbm.Dataset(matrix, label)
    lightgbm.train({**stock, "num_leaves": 2**options.layers}, rows, options.trees)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
