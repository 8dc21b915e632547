"""What the channel, being known, can do for accuracy, beside the papers' plain training.

Models are tested on unrandomised rows (mode clear): what routed and local scoring meet.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.boosting import trainer
from opboost_ops.boosting.frame import Parameters
from opboost_ops.datasets import load
from opboost_ops.lab.accuracy import (
    DEPTH,
    DOMAIN,
    HELD_OUT,
    RATE,
    SCALES,
    TABLE_EPSILONS,
    TREES,
    mechanism_of,
)
from opboost_ops.lab.experiment import Progress, run, summary
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms.channel import Channel

DATASETS = ("adult", "pendigits", "powerplant", "casp")
LOWER_IS_BETTER = ("powerplant", "casp")
VARIANTS = ("plain", "redrawn", "penalised")
METHODS: tuple[dict[str, Any], ...] = (
    {"method": "global_map", "theta": 0, "alpha": 0.0},
    {"method": "adj_map", "theta": 2, "alpha": 2.0},
)


def experiment(
    datasets: tuple[str, ...],
    epsilons: tuple[float, ...],
    seeds: int,
    work: Path,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure all variants and sum them up.

    Args:
        datasets: Names.
        epsilons: Of the mechanisms.
        seeds: How many splits and draws of noise.
        work: Folder where measurements are kept.
        progress: Called with how many are done, and of how many.

    Returns:
        ``rows``: for each setting the metric of each variant, its difference to plain training on
        the same split and draw, and ``better``: in how many seeds it is.
    """
    cells = [
        {"dataset": dataset, "scale": scale, **method, "epsilon": epsilon, "seed": seed}
        for seed in range(seeds)
        for dataset in datasets
        for scale in SCALES
        for method in METHODS
        for epsilon in epsilons
    ]
    rows = run(cells, measure, work / "improvements.parquet", progress)
    by = ("dataset", "scale", "method", "theta", "alpha", "epsilon")
    lines = []
    for variant in VARIANTS[1:]:
        less = pl.col("dataset").is_in(LOWER_IS_BETTER)
        gain = pl.col(variant) - pl.col("plain")
        here = rows.with_columns(gain=pl.when(less).then(-gain).otherwise(gain))
        for line in summary(here, by, ("plain", variant, "gain", f"{variant}_second")):
            settings = [pl.col(name) == line[name] for name in by]
            better = here.filter(*settings).filter(pl.col("gain") > 0).height
            measured = {n.removeprefix(f"{variant}_"): v for n, v in line.items()}
            measured["value"] = measured.pop(variant)
            measured["value_sd"] = measured.pop("sd")
            lines.append({"variant": variant, **measured, "better": better})
    return {"name": "improvements", "trees": TREES, "rate": RATE, "depth": DEPTH, "rows": lines}


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train and test one setting in all variants.

    Args:
        cell: Dataset, map, mechanism and seed.

    Returns:
        By variant accuracy, or mean squared error in regression, and as ``_second`` AUC or R2;
        ``penalty``: what the last variant used.
    """
    table = _prepared(cell["dataset"], cell["scale"], cell["seed"])
    channel = mechanism_of(cell).channel(DOMAIN)
    frame, test = table.frames(cell["method"], mechanism_of(cell))
    label = table.label[: table.train]
    plain = _parameters(table, cell["seed"])
    penalty = noise_to_signal(channel)
    model = table.materialised(trainer.train(frame, label, plain), frame)
    penalised = trainer.train(frame, label, _parameters(table, cell["seed"], penalty))
    models = {"plain": model, "penalised": table.materialised(penalised, frame)}
    drawn, _ = table.frames(cell["method"], mechanism_of(cell), redrawn=True)
    models["redrawn"] = table.materialised(trainer.train(drawn, label, plain), drawn)
    found: dict[str, float] = {"penalty": penalty}
    for variant in VARIANTS:
        figures = table.evaluated(trainer.predict(models[variant], test))
        found[variant], found[f"{variant}_second"] = figures["metric"], figures["second"]
    return found


def noise_to_signal(channel: Channel) -> float:
    """E[Var(Y | x)] / Var(E[Y | x]) for inputs spread evenly over the domain.

    As a penalty on leaves it follows from the channel alone, not from any table.

    Args:
        channel: A mechanism's channel.
    """
    law, outputs = channel.probabilities(), channel.outputs.astype(np.float64)
    mean = law @ outputs
    return float(np.mean(law @ outputs**2 - mean**2) / np.var(mean))


def _parameters(table: TwoParties, seed: int, penalty: float | None = None) -> Parameters:
    return Parameters(
        task=table.task,
        classes=table.classes,
        trees=TREES,
        learning_rate=RATE,
        depth=DEPTH,
        seed=seed,
        penalty=penalty,
    )


@lru_cache(maxsize=1)
def _prepared(name: str, scale: str, seed: int) -> TwoParties:
    return TwoParties(load(name), DOMAIN, scale, HELD_OUT, seed)


__all__ = ["DATASETS", "TABLE_EPSILONS", "VARIANTS", "experiment", "measure", "noise_to_signal"]
