"""Private models on random splits: errors by epsilon, at a delta or without one.

All columns of a table in one place on [1, 32]. A seed holds one of five folds out and draws all
noise again; figures are means over seeds. With a delta, leaf sums get Skellam noise and the whole
model has (epsilon, delta), see `opboost_ops.learning.private.noisy_leaves`; with ``--delta 0``
leaves get Laplace noise and epsilon holds alone.

``--beside`` adds other trainers on the same folds: ``pure`` (DPBoost, 50 trees of depth 6, rate
0.1, and random splits, 20 of depth 4, rate 0.5) and ``ebm`` (DP-EBM, see `benchmarks.dp_ebm`).
``--protocol sbdt`` is that of S-BDT (arXiv 2309.12041): delta 5e-8, its epsilons, rows without
missing values, five new random folds in each repetition. ``--seconds ROWS`` measures training
time beside plain LightGBM of the same size instead.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np

from benchmarks import dp_ebm
from benchmarks.measure import parser_of, show
from benchmarks.papers.dpboost import DOMAIN, FOLDS, LABELS, parameters_of
from benchmarks.papers.one_table import OneTable
from opboost_ops.config.training import DPBoostTraining
from opboost_ops.extras.datasets import load
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters
from opboost_ops.learning.metrics import evaluate

#: S-BDT's delta and epsilons, and its mean metric at each: of the paper, and the best of all the
#: settings that its repository's results (`*_rerun_results.csv`) chose by the same test folds.
SBDT_DELTA = 5e-8
SBDT: dict[str, dict[float, float]] = {
    "abalone": {
        0.05: 2.920,
        0.1: 2.754,
        0.105: 2.745,
        0.2: 2.664,
        0.25: 2.64,
        0.3: 2.620,
        0.5: 2.582,
    },
    "adult": {0.01: 0.787, 0.02: 0.831, 0.03: 0.849, 0.053: 0.853, 0.1: 0.876, 0.5: 0.893},
}

#: Predicts the rows of a fold, by models of all others; None where that took too long.
Scores = Callable[[OneTable, np.ndarray, int], np.ndarray | None]


def main() -> None:
    """Run the study and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument("--dataset", type=lambda text: text.split(","), default=["abalone"])
    parser.add_argument("--epsilon", type=_numbers)
    parser.add_argument("--delta", type=float, default=1e-6, help="0 for epsilon alone")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--beside", type=lambda text: text.split(","), default=[])
    parser.add_argument("--protocol", choices=("folds", "sbdt"), default="folds")
    parser.add_argument("--seconds", type=int, help="rows; measures time alone")
    options = parser.parse_args()
    if options.seconds:
        print(json.dumps(seconds(options.seconds)))
        return
    sbdt = options.protocol == "sbdt"
    delta = SBDT_DELTA if sbdt else options.delta
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.dataset:
        table = OneTable(load(name), DOMAIN, FOLDS)
        if sbdt:
            table = complete(table)
        known = SBDT[name] if sbdt else {}
        for epsilon in options.epsilon or [*known] or [0.5, 1.0, 2.0, 4.0]:
            others: dict[str, Scores] = {"": _ours(name, epsilon, delta)}
            if "pure" in options.beside:
                others |= {k: _pure(name, epsilon, k) for k in ("dpboost", "random")}
            if "ebm" in options.beside:
                others["ebm"] = dp_ebm.scores(epsilon, delta)
            line: dict[str, Any] = {}
            for kind, scores in others.items():
                more = _measure(table, scores, options.seeds, sbdt)
                line |= {f"{kind}_{key}" if kind else key: value for key, value in more.items()}
            if epsilon in known:
                line["sbdt"] = known[epsilon]
            found.setdefault(name, {})[f"{epsilon:g}"] = line
            print(name, epsilon, json.dumps(line), file=sys.stderr)
    show(found, options)


def seconds(rows: int, features: int = 10) -> dict[str, float]:
    """Training time with a delta beside plain LightGBM of the same trees, depth and columns.

    Args:
        rows: Of a generated table.
        features: Its columns.
    """
    random = np.random.default_rng(0)
    matrix = np.asfortranarray(random.integers(1, DOMAIN.size + 1, (rows, features)).astype(float))
    label = (matrix[:, 0] + matrix[:, 1] + random.normal(0, 8, rows) > DOMAIN.size).astype(float)
    names = tuple(f"x{i}" for i in range(features))
    cuts = dict.fromkeys(names, tuple(np.arange(1, DOMAIN.size) + 0.5))
    frame = Frame(names, matrix, (), (), cuts)
    ours = replace(_parameters("adult", 1.0, 1e-7), seed=0)
    found: dict[str, float] = {"rows": rows, "features": features}
    for kind, parameters in (
        ("private", ours),
        ("lightgbm", replace(ours, trainer="lightgbm", private=None)),
    ):
        begin = time.perf_counter(), time.process_time()
        trainer.train(frame, label, parameters)
        found[f"{kind}_wall"] = round(time.perf_counter() - begin[0], 1)
        found[f"{kind}_processor"] = round(time.process_time() - begin[1], 1)
    return found


def complete(table: OneTable) -> OneTable:
    """A table without the rows that miss a category, which stand for S-BDT's missing values.

    Args:
        table: Of this project; it gives a missing category a code of its own, or none.
    """
    frame = table.frame
    kept = ~np.isnan(frame.matrix).any(axis=1)
    table.frame, table.label, table.fold = frame.rows(kept), table.label[kept], table.fold[kept]
    return table


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _parameters(name: str, epsilon: float, delta: float) -> Parameters:
    """Random splits with the package's defaults of the other parameters."""
    privacy = {"epsilon": epsilon, "delta": delta, "splits": "random"}
    declared = DPBoostTraining.model_validate({"trainer": "dpboost", "private": privacy})
    bounds = LABELS.get(name)
    task, classes = ("regression", ()) if bounds else ("binary", (0, 1))
    return trainer.parameters_of(declared, task, classes, bounds)


def _ours(name: str, epsilon: float, delta: float) -> Scores:
    return _model(_parameters(name, epsilon, delta))


def _pure(name: str, epsilon: float, kind: str) -> Scores:
    if kind == "random":
        return _ours(name, epsilon, 0)
    return _model(parameters_of({"dataset": name, "epsilon": epsilon, "trees": 50}))


def _model(parameters: Parameters) -> Scores:
    def scores(table: OneTable, test: np.ndarray, _seed: int) -> np.ndarray:
        model = trainer.train(table.frame.rows(~test), table.label[~test], parameters)
        return trainer.predict(model, table.frame.matrix[test])

    return scores


def _measure(table: OneTable, scores: Scores, seeds: int, fresh: bool = False) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    late = 0
    for seed in range(seeds):
        fold = table.fold
        if fresh:
            fold = np.random.default_rng(seed // FOLDS).permutation(len(fold)) % FOLDS
        test = fold == seed % FOLDS
        predicted = scores(table, test, seed)
        if predicted is None:
            late += 1
            continue
        for key, value in errors(table, predicted, test).items():
            found.setdefault(key, []).append(value)
    line = {key: round(fmean(values), 4) for key, values in found.items()}
    line |= {f"{key}_sd": round(stdev(of), 4) for key, of in found.items() if len(of) > 1}
    return line | ({"late": late} if late else {})


def errors(table: OneTable, found: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """The metrics of one fold.

    Args:
        table: With its labels.
        found: Predictions of the fold.
        test: Which rows it has.
    """
    truth = table.label[test]
    if table.task == "binary":
        wrong = float(((found > 0.5) != (truth == 1)).mean())
        return {"error": wrong, "auc": evaluate("binary", truth, found)["auc"]}
    return {"rmse": float(np.sqrt(np.mean((found - truth) ** 2)))}


if __name__ == "__main__":
    main()
