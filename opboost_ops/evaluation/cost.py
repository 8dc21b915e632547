"""What protection costs: time a cell, bytes a party, seconds of a run (OpBoost, Tables 4, 7, 8).

Whatever is compared is timed in one process, by turns, and the least of the repeats counts: the
machine may be busy with other work, and then only ratios mean something. Mechanisms and pyope, of
one thread, are timed by the processor's clock, which others' work disturbs least.
"""

import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import TypeAdapter

from opboost_ops.boosting import trainer
from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.evaluation import harness
from opboost_ops.evaluation.experiment import Progress, run, summary
from opboost_ops.local_run import run_federation, site_files
from opboost_ops.mechanisms import Mechanism, noise
from opboost_ops.mechanisms.release import randomise

DATASETS = ("powerplant", "pendigits", "adult", "casp")
#: The workload of the paper's Table 4: values, and where they lie.
VALUES, DOMAIN, THETA = 100_000, Domain(1, 100), 10
EPSILON = 1.0
#: pyope takes a millisecond a value: so many are timed, and the rest is extrapolated.
PYOPE_VALUES = 200
#: The workload of the runs.
RUN_EPSILON, LOWER, UPPER, TREES, RATE, DEPTH = 1.28, 1, 10, 80, 0.1, 3
REPEATS = 5
_QUICK_ROWS = 1500
#: What the paper spends on the rank of a cell.
PAPER_BYTES_A_CELL = 4
#: Stages that plain training has nothing to be compared with: metrics, card and registry.
AFTER = ("evaluate", "register", "announce_champion")

_SAMPLERS = ("exponential", "bounded_laplace")
#: Each with the paper's two names for its law, where it has them.
METHODS: tuple[tuple[str, str], ...] = (
    *((name, sampler) for name in ("global_map", "adj_map", "local_map") for sampler in _SAMPLERS),
    ("bucket_response", ""),
    ("grr", ""),
    ("piecewise", ""),
)
_PARTITIONED = ("adj_map", "local_map")
_MECHANISM: TypeAdapter[Mechanism] = TypeAdapter(Mechanism)
_PUBLIC, _COLUMN = bytes(32), uuid.UUID(int=1)

_TIMES = ("seconds", "nanoseconds_a_cell", "times_pyope", "pyope_seconds", "key_seconds")
_RUN = ("rows", "cells", "release_bytes", "entropy_bytes", "digest_bytes", "holdout_bytes")
_SECONDS = ("model_seconds", "all_seconds", "quality_seconds", "lightgbm_seconds")
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
    by_run = summary(ran, ("dataset",), (*_RUN, *_SECONDS, "xgboost_seconds", *_RATIOS, *stages))
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


def mechanism_of(method: str, sampler: str) -> Mechanism:
    """A mechanism of the first workload.

    Args:
        method: Its name.
        sampler: The paper's name for its law; empty where it has none.
    """
    data: dict[str, Any] = {"name": method, "epsilon": EPSILON}
    if sampler:
        data["sampler"] = sampler
    if method in _PARTITIONED:
        data["theta"] = THETA
    return _MECHANISM.validate_python(data)


def release_cost(
    cell: Mapping[str, Any], repeats: int = REPEATS, sample: int = PYOPE_VALUES
) -> dict[str, float]:
    """Time one mechanism, and pyope on the same values, by turns.

    From person keys to outputs; the keys, once a table, are timed apart.

    Args:
        cell: ``method`` and ``sampler``.
        repeats: How often.
        sample: How many values pyope encrypts.

    Raises:
        ConfigError: pyope is not installed.
    """
    mechanism = mechanism_of(cell["method"], cell["sampler"])
    # Every value equally often, in an order that no cache likes.
    values = np.arange(VALUES, dtype=np.int64) * 61 % DOMAIN.size + DOMAIN.lower
    ids = pa.array([f"p{i:07d}" for i in range(VALUES)])
    keys, key_seconds = least(
        lambda: noise.person_keys(_PUBLIC, ids, "string"), 1, time.process_time
    )
    ours, theirs = [], []
    for _ in range(repeats):
        _, seconds = least(
            lambda: randomise(values, keys, mechanism, DOMAIN, b"map", _PUBLIC, _COLUMN),
            REPEATS,
            time.process_time,
        )
        ours.append(seconds)
        theirs.append(pyope_seconds(values[:sample]) * VALUES / sample)
    return {
        "seconds": min(ours),
        "nanoseconds_a_cell": min(ours) / VALUES * 1e9,
        "pyope_seconds": min(theirs),
        "times_pyope": min(theirs) / min(ours),
        "key_seconds": key_seconds,
    }


def pyope_seconds(values: np.ndarray) -> float:
    """Processor seconds in which pyope encrypts some values.

    Args:
        values: Integers of the domain.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        from pyope.ope import OPE, ValueRange
    except ImportError:
        OPE = None  # noqa: N806
    if OPE is None:
        raise ConfigError("pyope is not installed.", "Install the extra `bench`.")
    cipher = OPE(_PUBLIC, ValueRange(DOMAIN.lower, DOMAIN.upper), ValueRange(1, 2**31 - 1))
    some = values.tolist()
    begin = time.process_time()
    for value in some:
        cipher.encrypt(value)
    return time.process_time() - begin


def naming(timed: pl.DataFrame) -> list[dict[str, Any]]:
    """The paper's two names for a law: whether their counts are the same, and their times.

    Args:
        timed: Measurements of `release_cost`.
    """
    lines = []
    for method in dict.fromkeys(name for name, sampler in METHODS if sampler):
        channels = [mechanism_of(method, sampler).channel(DOMAIN) for sampler in _SAMPLERS]
        mine = timed.filter(pl.col("method") == method)
        seconds = {
            sampler: mine.filter(pl.col("sampler") == sampler).get_column("seconds").min()
            for sampler in _SAMPLERS
        }
        same = channels[0].counts == channels[1].counts
        lines.append({"method": method, "same_counts": same, "seconds": seconds})
    return lines


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
    seconds, quality = done.seconds(), done.seconds("quality_seconds")
    model = sum(value for stage, value in seconds.items() if stage not in AFTER)
    return {
        **found,
        **{f"stage_{stage}": value for stage, value in seconds.items()},
        "model_seconds": model,
        "all_seconds": sum(seconds.values()),
        "quality_seconds": sum(quality.values()),
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


def least(
    work: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[Any, float]:
    """The work's result, and the least of its seconds after one run that is not counted.

    Args:
        work: What is timed.
        repeats: How often.
        clock: By which clock.
    """
    result, seconds = work(), []
    for _ in range(repeats):
        begin = clock()
        work()
        seconds.append(clock() - begin)
    return result, min(seconds)


def stage_names(line: Mapping[str, Any]) -> Iterable[str]:
    """The stages whose seconds a line of ``runs`` holds."""
    return (n[len("stage_") :] for n in line if n.startswith("stage_") and not n.endswith("_sd"))
