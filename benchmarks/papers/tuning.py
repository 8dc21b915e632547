"""What tuning on released rows gives: tuned beside default parameters, in each mode of scoring."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import spread, table
from benchmarks.papers.measurements import measure_all, summary
from benchmarks.papers.two_parties import DEPTH, RATE, TREES, TwoParties
from opboost_ops.extras.datasets import load
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.metrics import main_metric
from opboost_ops.learning.tuning import tune
from opboost_ops.mechanisms import GlobalMap

DATASETS = ("adult", "credit_default", "give_me_some_credit", "casp", "powerplant")
EPSILONS = (1.28, 5.12)
MODES = ("desensitised", "clear")
TRIALS, FOLDS, ROWS = 20, 3, 30_000


def run(options: Options) -> dict[str, Any]:
    """Measure all settings and sum them up."""
    trials, rows, seeds = options["trials"], options["rows"], options.seeds
    cells = [
        {"dataset": name, "epsilon": epsilon, "trials": trials, "rows": rows, "seed": seed}
        for seed in range(seeds)
        for name in options["dataset"]
        for epsilon in options["epsilon"]
    ]
    measured = measure_all(cells, measure, "tuning", options)
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
    return {"trees": TREES, "rate": RATE, "depth": DEPTH, **facts, "rows": lines}


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
    declared = table.parameters(cell["seed"])
    found = tune(frame, label, declared, cell["trials"])
    models = {
        name: table.trained(frame, parameters)
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
        comparison = Comparison(table.task, truth, predictions)
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
    return TwoParties(replace(dataset, tables=tables), "linear", seed)


def section(found: Mapping[str, Any], _: Path) -> str:
    """The section."""
    rows = found["rows"]
    seeds = found["seeds"]
    # The summary has all.
    largest = max(row["epsilon"] for row in rows)
    heads = ("table", "default", "tuned", "gain", "above, below")
    lines = [
        (
            row["dataset"],
            f"{row['default']:.4f}",
            f"{row['tuned']:.4f}",
            spread(row, "gain", 4),
            f"{row['above']}, {row['below']} of {seeds}",
        )
        for row in rows
        if row["epsilon"] == largest and row["mode"] == "desensitised"
    ]
    better = [row for row in rows if row["above"] == seeds]
    worse = [row for row in rows if row["below"] == seeds]
    trees = f"{found['trees']} trees of depth {found['depth']} at rate {found['rate']:g}"
    return f"""## Tuning on released rows

{found["trials"]} trials in {found["folds"]} folds of the training rows, beside {trees}.
At most {found["table_rows"]:,} rows of each table, a fifth of them held out; Global-map on
[1, 10]; {seeds} seeds. AUC, or R2 (casp, powerplant). *Above, below* counts the seeds whose paired
95 % interval of the gain lies above or below zero.

Of {len(rows)} settings, above zero with every seed: {_named(better)}. Below with every seed:
{_named(worse)}. Desensitised rows at epsilon {largest:g}:

{table(heads, lines)}
"""


def _named(rows: list[Mapping[str, Any]]) -> str:
    named = [f"{row['dataset']} at {row['epsilon']:g} ({row['mode']})" for row in rows]
    return ", ".join(named) or "none"


EXPERIMENTS = (
    Experiment(
        "tuning",
        "Tuned beside default parameters, by table, epsilon and mode of scoring.",
        run,
        section,
        seeds=3,
        options={"dataset": DATASETS, "epsilon": EPSILONS, "trials": TRIALS, "rows": ROWS},
        quick={
            "seeds": 1,
            "dataset": ("powerplant",),
            "epsilon": (1.28,),
            "trials": 4,
            "rows": 1000,
        },
    ),
)
