"""What tuning on released rows gives: tuned beside default parameters, in each mode of scoring."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.boosting import trainer
from opboost_ops.boosting.frame import Parameters
from opboost_ops.boosting.intervals import Comparison
from opboost_ops.boosting.metrics import main_metric
from opboost_ops.boosting.tuning import Search, tune
from opboost_ops.datasets import load
from opboost_ops.lab.accuracy import DEPTH, DOMAIN, HELD_OUT, RATE, TREES
from opboost_ops.lab.experiment import Progress, run, summary
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms import GlobalMap

DATASETS = ("adult", "credit_default", "give_me_some_credit", "casp", "powerplant")
EPSILONS = (1.28, 5.12)
MODES = ("desensitised", "clear")
TRIALS, FOLDS, ROWS = 20, 3, 30_000


def experiment(
    work: Path,
    progress: Progress | None = None,
    *,
    datasets: Sequence[str] = DATASETS,
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = 3,
    trials: int = TRIALS,
    rows: int = ROWS,
) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Args:
        work: Where single measurements are kept.
        progress: Told how many are done.
        datasets: Names.
        epsilons: Of Global-map on [1, 10].
        seeds: Splits, draws and searches.
        trials: Of each search.
        rows: Of each table, drawn evenly, or all if it has fewer; training and held-out together.
    """
    cells = [
        {"dataset": name, "epsilon": epsilon, "trials": trials, "rows": rows, "seed": seed}
        for seed in range(seeds)
        for name in datasets
        for epsilon in epsilons
    ]
    measured = run(cells, measure, work / "tuning.parquet", progress)
    lines = []
    for mode in MODES:
        names = [f"{mode}_{what}" for what in ("default", "tuned", "gain")]
        for line in summary(measured, ("dataset", "epsilon"), names):
            here = measured.filter(
                (pl.col("dataset") == line["dataset"]) & (pl.col("epsilon") == line["epsilon"])
            )
            short = {name.removeprefix(f"{mode}_"): value for name, value in line.items()}
            short["above"] = int((here[f"{mode}_low"] > 0).sum())
            short["below"] = int((here[f"{mode}_high"] < 0).sum())
            lines.append({"mode": mode, **short})
    facts = {"trials": trials, "folds": FOLDS, "table_rows": rows, "seeds": seeds}
    return {"name": "tuning", "trees": TREES, "rate": RATE, "depth": DEPTH, **facts, "rows": lines}


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Default and tuned parameters on one split and one draw.

    Args:
        cell: Dataset, epsilon, trials, rows and seed.

    Returns:
        By mode the AUC or R2 of both, the gain and its paired 95 % interval; and what was found.
    """
    table = _prepared(cell["dataset"], cell["rows"], cell["seed"])
    mechanism = GlobalMap(name="global_map", epsilon=cell["epsilon"])
    frame, clear = table.frames("global_map", mechanism)
    label, truth = table.label[: table.train], table.label[table.train :]
    classes = table.classes if table.task != "regression" else 0
    declared = Parameters(table.task, classes, TREES, RATE, DEPTH, cell["seed"])
    found = tune(frame, label, declared, Search(cell["trials"], FOLDS))
    models = {
        name: table.materialised(trainer.train(frame, label, parameters), frame)
        for name, parameters in (("default", declared), ("tuned", found.parameters))
    }
    metric = main_metric(table.task)
    result: dict[str, float] = {
        "depth": found.parameters.depth,
        "found_trees": found.parameters.trees,
        "winner": found.winner,
    }
    for mode, rows in (("desensitised", table.desensitised(mechanism)), ("clear", clear)):
        predictions = {name: trainer.predict(text, rows) for name, text in models.items()}
        comparison = Comparison(table.task, truth, predictions, cell["seed"])
        gain = comparison.gain("tuned", "default", metric)
        result |= {f"{mode}_{name}": comparison.interval(name, metric).value for name in models}
        result |= {f"{mode}_gain": gain.value, f"{mode}_low": gain.low, f"{mode}_high": gain.high}
    return result


@lru_cache(maxsize=1)
def _prepared(name: str, rows: int, seed: int) -> TwoParties:
    dataset = load(name)
    height = dataset.tables[dataset.label_holder].height
    drawn = hashlib.shake_256(f"rows {seed}".encode()).digest(8 * height)
    chosen = np.sort(np.argsort(np.frombuffer(drawn, dtype="<u8"))[:rows])
    tables = {party: table[chosen] for party, table in dataset.tables.items()}
    return TwoParties(replace(dataset, tables=tables), DOMAIN, "linear", HELD_OUT, seed)
