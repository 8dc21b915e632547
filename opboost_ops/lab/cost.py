"""What protection costs: time a cell, bytes a party, seconds of a run (OpBoost, Tables 4, 7, 8).

Whatever is compared is timed in the same run, by the processor's clock, summed over threads: other
work on the machine disturbs it least. Of repeats the least counts. Seconds by the wall's clock are
beside those of runs.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from opboost_ops.boosting import trainer
from opboost_ops.datasets import harness, load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.lab.experiment import Progress, run, summary
from opboost_ops.lab.release_timing import (
    DOMAIN,
    EPSILON,
    METHODS,
    PYOPE_VALUES,
    REPEATS,
    THETA,
    VALUES,
    least,
    naming,
    release_cost,
)
from opboost_ops.run.local import run_federation
from opboost_ops.run.party_sites import site_files

DATASETS = ("powerplant", "pendigits", "adult", "casp")
#: The workload of the runs.
RUN_EPSILON, LOWER, UPPER, TREES, RATE, DEPTH = 1.28, 1, 10, 80, 0.1, 3
_QUICK_ROWS = 1500
#: What the paper spends on the rank of a cell.
PAPER_BYTES_A_CELL = 4
#: Stages that plain training has nothing to be compared with: metrics, card and registry.
AFTER = ("evaluate", "register", "announce_champion")

_TIMES = ("seconds", "nanoseconds_a_cell", "times_pyope", "pyope_seconds", "key_seconds")
_RUN = ("rows", "cells", "release_bytes", "entropy_bytes", "digest_bytes", "holdout_bytes")
_SECONDS = ("model_seconds", "all_seconds", "lightgbm_seconds", "xgboost_seconds")
_WALL = ("wall_seconds", "quality_wall_seconds", "load")
_RATIOS = ("model_to_lightgbm", "model_to_xgboost", "all_to_lightgbm")


def experiment(
    datasets: Sequence[str],
    seeds: int,
    work: Path,
    progress: Progress | None = None,
    quick: bool = False,
) -> dict[str, Any]:
    """Measure all costs and sum them up.

    Args:
        datasets: Names of the tables of the whole runs.
        seeds: How many times each is run.
        work: Folder where measurements are kept.
        progress: Called with how many are done, and of how many.
        quick: One repeat, and few rows of a generated table.

    Returns:
        ``mechanisms``, ``naming``, ``runs``, and ``paper``: of its figures those that are known.
    """
    of_methods = [
        {"method": method, "sampler": sampler, "seed": seed}
        for seed in range(seeds)
        for method, sampler in METHODS
    ]
    of_runs = [{"dataset": dataset, "seed": s} for s in range(seeds) for dataset in datasets]
    repeats, sample, name = (1, 20, "cost-quick") if quick else (REPEATS, PYOPE_VALUES, "cost")
    timing = partial(release_cost, repeats=repeats, sample=sample)
    timed = run(of_methods, timing, work / f"{name}-mechanisms.parquet", progress)
    running = partial(run_cost, repeats=repeats, rows=_QUICK_ROWS if quick else None)
    ran = run(of_runs, running, work / f"{name}-runs.parquet", progress)
    stages = sorted(name for name in ran.columns if name.startswith("stage_"))
    by_run = summary(ran, ("dataset",), (*_RUN, *_SECONDS, *_WALL, *_RATIOS, *stages))
    return {
        "name": "cost",
        "values": VALUES,
        "domain": [DOMAIN.lower, DOMAIN.upper],
        "theta": THETA,
        "epsilon": EPSILON,
        "pyope_values": sample,
        "repeats": repeats,
        "run": {
            "epsilon": RUN_EPSILON,
            "domain": [LOWER, UPPER],
            "trees": TREES,
            "rate": RATE,
            "depth": DEPTH,
        },
        "mechanisms": summary(timed, ("method", "sampler"), _TIMES),
        "naming": naming(timed),
        "runs": by_run,
        "paper": {
            "times_order_preserving_encryption": [40, 200],
            "bytes_a_cell": PAPER_BYTES_A_CELL,
            "seconds_by_dataset": "not known",
            "federboost_seconds_8192_x_11": 1.213,
        },
    }


def run_cost(
    cell: Mapping[str, Any], repeats: int = REPEATS, rows: int | None = None
) -> dict[str, float]:
    """Run a whole federation, a process a party, and plain boosters on the same rows beside it.

    Args:
        cell: ``dataset`` and ``seed``.
        repeats: How often plain boosters are timed.
        rows: Of a generated table.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write_workspace(
            load(cell["dataset"], rows=rows),
            Path(folder) / "federation",
            epsilon=RUN_EPSILON,
            lower=LOWER,
            upper=UPPER,
            seed=cell["seed"],
            training={"trees": TREES, "learning_rate": RATE, "depth": DEPTH},
        )
        done = run_federation(path, {})
        sites = site_files(path, done.federation)
        found = costs(sites, done.federation.name, done.federation.label_holder, done.run, repeats)
    seconds, wall = done.seconds("processor_seconds"), done.seconds()
    model = sum(value for stage, value in seconds.items() if stage not in AFTER)
    return {
        **found,
        **{f"stage_{stage}": value for stage, value in seconds.items()},
        "model_seconds": model,
        "all_seconds": sum(seconds.values()),
        "wall_seconds": sum(wall.values()),
        "quality_wall_seconds": sum(done.seconds("quality_seconds").values()),
        "load": os.getloadavg()[0],
        "model_to_lightgbm": model / found["lightgbm_seconds"],
        "model_to_xgboost": model / found["xgboost_seconds"],
        "all_to_lightgbm": sum(seconds.values()) / found["lightgbm_seconds"],
    }


def costs(
    sites: Mapping[str, Path], federation: str, label_holder: str, name: str, repeats: int = REPEATS
) -> dict[str, float]:
    """Bytes of a finished run, and what both boosters need for its rows without protection.

    Args:
        sites: Every party's ``site.yaml``.
        federation: Name of the federation.
        label_holder: Its label holder.
        name: The run.
        repeats: How often boosters are timed.
    """
    sizes = harness.sizes(sites[label_holder], federation, name)
    frame, label, parameters = harness.raw_training(sites, federation, label_holder, name)
    boosters: tuple[trainer.Trainer, ...] = ("lightgbm", "xgboost")
    plain: dict[str, float] = {}
    for booster in boosters:
        mine = replace(parameters, trainer=booster)
        _, plain[booster] = least(partial(trainer.train, frame, label, mine), repeats)
    return {
        "rows": frame.matrix.shape[0],
        "cells": frame.matrix.shape[0] * sizes["ranked"],
        "release_bytes": sizes["feature_holders_total"],
        "entropy_bytes": sizes["ranks_entropy"],
        "digest_bytes": sizes["align"],
        "holdout_bytes": sizes["holdout"],
        "lightgbm_seconds": plain["lightgbm"],
        "xgboost_seconds": plain["xgboost"],
    }
