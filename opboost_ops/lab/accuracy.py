"""What protection leaves of accuracy: the workload of OpBoost's Table 6 and Figures 7 to 9 and 13.

Models are tested on unrandomised rows (mode clear), as in the paper.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from opboost_ops.boosting import metrics, trainer
from opboost_ops.boosting.frame import Parameters, Trainer
from opboost_ops.datasets import load
from opboost_ops.datasets.catalogue import CATALOGUE
from opboost_ops.domain import Domain
from opboost_ops.lab.experiment import Progress, run, summary
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms import Mechanism

DATASETS = ("adult", "pendigits", "powerplant", "casp")
EPSILONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)
#: The columns of the paper's Table 6.
TABLE_EPSILONS = (0.08, 0.32, 1.28)
ALPHAS = (0.4, 0.6, 0.8, 2.0, 5.0, 10.0)
THETAS = (2, 4)
DOMAIN = Domain(1, 10)
TREES, RATE, DEPTH = 80, 0.1, 3
#: Share of the rows that is held out where a dataset has no split of its own.
HELD_OUT = 0.2

#: How B's columns are laid on the domain: as declared, or in cells of equal shares.
SCALES = ("linear", "quantile")
#: Tables whose rows in the paper fit an equal-frequency map.
QUANTILE_TABLES = ("pendigits", "casp")

#: Boosters by what the command calls them.
TRAINERS: Mapping[str, tuple[Trainer, ...]] = {
    "lightgbm": ("lightgbm",),
    "xgboost": ("xgboost",),
    "both": ("lightgbm", "xgboost"),
}

_NO_MECHANISM = ("raw", "alone")


def methods(
    epsilons: Sequence[float], alphas: Sequence[float] = ALPHAS
) -> Iterator[dict[str, Any]]:
    """All methods: no protection, the label holder alone, and every mechanism.

    Args:
        epsilons: For the mechanisms.
        alphas: Of Adj-map.
    """
    for name in _NO_MECHANISM:
        yield {"method": name, "epsilon": 0.0, "theta": 0, "alpha": 0.0}
    for epsilon in epsilons:
        for name in ("global_map", "geometric", "piecewise", "bucket_response"):
            yield {"method": name, "epsilon": epsilon, "theta": 0, "alpha": 0.0}
        for theta in THETAS:
            yield {"method": "local_map", "epsilon": epsilon, "theta": theta, "alpha": 0.0}
            for alpha in alphas:
                yield {"method": "adj_map", "epsilon": epsilon, "theta": theta, "alpha": alpha}


def cells(
    datasets: Sequence[str],
    epsilons: Sequence[float],
    seeds: int,
    alphas: Sequence[float] = ALPHAS,
    trainers: Sequence[Trainer] = ("lightgbm",),
    scales: Sequence[str] = SCALES,
) -> list[dict[str, Any]]:
    """Settings of the experiment; those of one seed stand together: a part of it is whole, too.

    Args:
        datasets: Names.
        epsilons: For the mechanisms.
        seeds: How many.
        alphas: Of Adj-map.
        trainers: Boosters.
        scales: Maps; the quantile map is for the tables whose rows in the paper fit it.
    """
    return [
        {"dataset": dataset, "trainer": name, "scale": scale, **method, "seed": seed}
        for seed in range(seeds)
        for dataset in datasets
        for name in trainers
        for method in methods(epsilons, alphas)
        for scale in (scales if method["method"] not in _NO_MECHANISM else ("linear",))
        if scale == "linear" or dataset in QUANTILE_TABLES
    ]


def experiment(
    datasets: Sequence[str],
    epsilons: Sequence[float],
    seeds: int,
    work: Path,
    progress: Progress | None = None,
    alphas: Sequence[float] = ALPHAS,
    trainers: Sequence[Trainer] = ("lightgbm",),
    scales: Sequence[str] = SCALES,
) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Args:
        datasets: Names.
        epsilons: For the mechanisms.
        seeds: How many.
        work: Folder where measurements are kept.
        progress: Called with how many are done, and of how many.
        alphas: Of Adj-map.
        trainers: Boosters.
        scales: Maps.

    Returns:
        ``rows``: for each setting the metric, its ratio to no protection on the same split, and
        their spread over seeds.
    """
    wanted = cells(datasets, epsilons, seeds, alphas, trainers, scales)
    rows = run(wanted, measure, work / "accuracy.parquet", progress)
    raw = {
        (row["dataset"], row["trainer"], row["seed"]): row["metric"]
        for row in rows.filter(pl.col("method") == "raw").iter_rows(named=True)
    }
    ratios = [
        ratio(
            CATALOGUE[row["dataset"]].task,
            row["metric"],
            raw[row["dataset"], row["trainer"], row["seed"]],
        )
        for row in rows.iter_rows(named=True)
    ]
    by = ("dataset", "trainer", "scale", "method", "epsilon", "theta", "alpha")
    lines = summary(rows.with_columns(ratio=pl.Series(ratios)), by, ("ratio", "metric", "second"))
    return {"name": "accuracy", "trees": TREES, "rate": RATE, "depth": DEPTH, "rows": lines}


def name_of(line: Mapping[str, Any]) -> str:
    """A method in words."""
    known = {"raw": "no protection", "alone": "label holder alone", "grr": "Generalised response"}
    name = known.get(line["method"])
    if name is None:
        name = str(line["method"]).replace("_", "-").capitalize()
    more = [f"{key} {line[key]:g}" for key in ("theta", "alpha") if line[key]]
    return ", ".join([name, *more])


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train and test one setting.

    Args:
        cell: One of `cells`.

    Returns:
        ``metric``: accuracy, or mean squared error in regression; and ``auc`` or ``r2``.
    """
    table = _prepared(cell["dataset"], cell["scale"], cell["seed"])
    return table.evaluated(_prediction(table, cell))


def _prediction(table: TwoParties, cell: Mapping[str, Any]) -> np.ndarray:
    label = table.label[: table.train]
    if cell["method"] == "alone" and not table.own:
        rows = len(table.label) - table.train
        return metrics.constant_prediction(table.task, table.classes, label, rows)
    mechanism = None if cell["method"] in _NO_MECHANISM else mechanism_of(cell)
    frame, test = table.frames(cell["method"], mechanism)
    parameters = Parameters(
        task=table.task,
        classes=table.classes,
        trees=TREES,
        learning_rate=RATE,
        depth=DEPTH,
        seed=cell["seed"],
        trainer=cell["trainer"],
    )
    model = trainer.train(frame, label, parameters)
    if frame.ranked:
        model = table.materialised(model, frame)
    return trainer.predict(model, test)


def ratio(task: str, protected: float, raw: float) -> float:
    """The paper's figure: 1 is as good as without protection.

    Args:
        task: Accuracy is divided by raw accuracy; in regression raw MSE by protected MSE.
        protected: The metric with protection.
        raw: The metric without.
    """
    return raw / protected if task == "regression" else protected / raw


@lru_cache(maxsize=2)
def _prepared(name: str, scale: str, seed: int) -> TwoParties:
    return TwoParties(load(name), DOMAIN, scale, HELD_OUT, seed)


_MECHANISM: TypeAdapter[Mechanism] = TypeAdapter(Mechanism)


def mechanism_of(cell: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a setting."""
    data: dict[str, Any] = {"name": cell["method"], "epsilon": cell["epsilon"]}
    if cell["theta"]:
        data["theta"] = cell["theta"]
    if cell["alpha"]:
        data["alpha"] = cell["alpha"]
    if cell["method"] == "bucket_response":
        # As many buckets as Local-map and Adj-map have partitions at theta 2.
        data["buckets"] = DOMAIN.size // THETAS[0]
    return _MECHANISM.validate_python(data)
