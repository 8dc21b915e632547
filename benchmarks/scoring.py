"""New rows scored by a whole federation, beside LightGBM's own prediction of the same frame.

Generated tables, so speeds and memory only. Every party runs in a process of its own; memory is
the peak of the largest of them.
"""

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import parser_of, show
from benchmarks.single_rows import single_rows
from opboost_ops.extras.datasets.tables import Dataset, row_ids
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.learning.boosters.trainer import predict
from opboost_ops.learning.registry.registry import Registry, model_in
from opboost_ops.pipeline.runner.local import run_federation

PARTIES = ("a", "b0", "b1")
BOUNDS = (-4.0, 4.0)


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="new rows")
    parser.add_argument("--train", type=int, default=20_000, help="rows to train on")
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--trees", type=int, default=80)
    parser.add_argument("--mode", default="desensitised", help="desensitised or routed")
    parser.add_argument("--serve", type=int, help="score so many rows one by one, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {**vars(options), **measured(options, Path(folder) / "federation")}
    show(result, options)


def measured(options: Any, folder: Path) -> dict[str, Any]:
    """Train on few rows, then score many."""
    names = [f"x{i}" for i in range(options.features)]
    shares = {party: names[i :: len(PARTIES)] for i, party in enumerate(PARTIES)}
    train = tables(options.train, names, 0)
    new = tables(options.rows, names, 1)
    dataset = Dataset(
        name="scored",
        task="binary",
        tables={p: train.select("id", *s, *(["y"] if p == "a" else [])) for p, s in shares.items()},
        label_holder="a",
        label={"column": "y", "task": "binary", "classes": [0, 1]},
        features={
            p: {n: {} if p == "a" else {"bounds": list(BOUNDS)} for n in s}
            for p, s in shares.items()
        },
        holdout=0.2,
        epsilon=1.28,
        domain=(1, 10),
        new_rows={p: new.select("id", *s) for p, s in shares.items()},
    )
    file = write_workspace(
        dataset,
        folder,
        seed=0,
        training={"trees": options.trees, "depth": 4},
        scoring={"mode": options.mode},
    )
    run_federation(file, {})
    begin = time.perf_counter()
    finished = run_federation(file, {}, purpose="score")
    whole = time.perf_counter() - begin
    # Of all processes that have ended, the largest: in KiB.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    registry = Registry(folder / "a" / "models", "scored")
    model = model_in(registry.files(str(registry.champion())))
    alone = predict_seconds(model, new.select(names).to_numpy())
    seconds = finished.seconds()
    more = single_rows(file, new, options.serve, names) if options.serve else {}
    return {
        "seconds": seconds,
        "score_seconds": seconds["score"],
        "sum_seconds": round(sum(seconds.values()), 3),
        "quality_seconds": round(sum(finished.seconds("quality_seconds").values()), 3),
        "whole_run_seconds": round(whole, 3),
        "lightgbm_predict_seconds": round(alone, 3),
        "score_to_lightgbm": round(seconds["score"] / alone, 3),
        "sum_to_lightgbm": round(sum(seconds.values()) / alone, 3),
        "peak_gib_of_a_process": round(peak / 2**20, 3),
        **more,
    }


def tables(rows: int, names: list[str], seed: int) -> pl.DataFrame:
    """A seeded table with an ID and a label that depends on all columns."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, len(names))).round(3)
    label = (matrix @ np.linspace(-1, 1, len(names)) + rng.normal(size=rows) > 0).astype(np.int64)
    columns = {name: matrix[:, i] for i, name in enumerate(names)}
    return pl.DataFrame({"id": row_ids(f"r{seed}", rows), **columns, "y": label})


def predict_seconds(model: str, matrix: np.ndarray) -> float:
    """LightGBM alone on a frame of the same size; once before, so that its import counts not."""
    frame = np.asfortranarray(matrix)
    predict(model, frame[:1000])
    begin = time.perf_counter()
    predict(model, frame)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
