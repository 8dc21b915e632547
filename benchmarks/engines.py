"""What training costs in one process, and on a Dask cluster of two local workers.

A generated table in a file, as `assemble` leaves it: ranks of ten values in one byte, and two own
columns of numbers. ``--engine frame`` reads it into one frame, as trainings of few rows do.
``processor`` are seconds of all processes with their imports, ``training`` those from the frame to
the model, with the workers' import of LightGBM; peaks are of each process, libraries included.
"""

import argparse
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import parser_of, show, status

BLOCK = 1 << 20
LABEL = "label"


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--engine", choices=["frame", "local", "dask"], default="local")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--own", type=int, default=2, help="of them, of the label holder")
    parser.add_argument("--trees", type=int, default=80)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--model", type=Path, help="file to write the model to")
    options = parser.parse_args()
    names = [f"{'credit' if i < options.own else 'bank'}.x{i}" for i in range(options.features)]
    facts = {"names": names, "ranked": names[options.own :], "categories": {}}
    with tempfile.TemporaryDirectory() as folder:
        if not (child := os.fork()):
            from opboost_ops.pipeline.home import Home

            Home(Path(folder)).write_table("frame", blocks(names, options))
            os._exit(0)
        os.waitpid(child, 0)
        result = trained(Path(folder), facts, options)
    show(result, options)


def blocks(names: list[str], options: argparse.Namespace) -> Iterator[pa.Table]:
    """Rows, block by block."""
    rng = np.random.default_rng(0)
    for begin in range(0, options.rows, BLOCK):
        size = min(BLOCK, options.rows - begin)
        columns: dict[str, Any] = {}
        score = rng.normal(size=size)
        for name in names[: options.own]:
            columns[name] = rng.normal(size=size).round(3)
            score += columns[name]
        for name in names[options.own :]:
            columns[name] = rng.integers(1, 11, size, dtype=np.uint8)
            score += (columns[name] - 5.5) / 3
        yield pa.table({**columns, LABEL: (score > 0).astype(np.float32)})


def trained(folder: Path, facts: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """What a training cost."""
    # Not at the top: a cluster's workers would import it all.
    from opboost_ops.learning.boosters import trainer
    from opboost_ops.learning.boosters.backend import Parameters, Rows
    from opboost_ops.learning.boosters.dask_engine import DaskEngine
    from opboost_ops.learning.boosters.lightgbm_backend import LocalEngine
    from opboost_ops.pipeline.home import Home
    from opboost_ops.pipeline.inputs.model_columns import frame_of

    table = Home(folder).table("frame")
    parameters = Parameters("binary", 2, options.trees, 0.1, options.depth, 0)
    rows = Rows(frame_of(table.slice(0, 0), facts), table, LABEL)
    trainer.BACKENDS["lightgbm"].version()  # Its import is no part of the training.
    before = processor()
    workers: list[tuple[float, int]] = []
    if options.engine == "dask":
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
            ) as cluster,
            Client(cluster.scheduler_address) as client,
        ):
            before = processor() + sum(client.run(processor).values())
            text = DaskEngine(cluster.scheduler_address).train(rows, parameters)
            workers = [*client.run(spent).values()]
    elif options.engine == "local":
        text = LocalEngine().train(rows, parameters)
    else:
        frame = frame_of(table, facts)
        text = trainer.train(frame, pc.cast(table.column(LABEL), "float64").to_numpy(), parameters)
    if options.model:
        options.model.write_text(text, encoding="utf-8")
    own = spent()
    return {
        "engine": options.engine,
        "rows": options.rows,
        "features": options.features,
        "load": round(os.getloadavg()[0], 1),
        "training": round(own[0] + sum(seconds for seconds, _ in workers) - before, 2),
        "processor": round(own[0] + sum(seconds for seconds, _ in workers), 2),
        "peak_mib": own[1],
        "peak_mib_of_workers": [peak for _, peak in workers],
    }


def processor() -> float:
    """Processor seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def spent() -> tuple[float, int]:
    """Processor seconds and the peak of memory of this process, in MiB."""
    return processor(), status("VmHWM") // 2**20


if __name__ == "__main__":
    main()
