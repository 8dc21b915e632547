"""Private models on random splits: errors by epsilon, at a delta or without one.

All columns of a table in one place on [1, 32]. A seed holds one of five folds out and draws all
noise anew; figures are means over seeds. With a delta, leaf sums get Skellam noise and the whole
model has (epsilon, delta), see `opboost_ops.boosting.dp.noisy_leaves`; with ``--delta 0`` leaves
get Laplace noise and epsilon holds alone. ``--pure`` trains the trainers with epsilon alone, too:
DPBoost (50 trees of depth 6, rate 0.1) and random splits (20 of depth 4, rate 0.5).
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np

from benchmarks.papers.dpboost import DOMAIN, FOLDS, parameters_of
from benchmarks.papers.one_table import OneTable
from opboost_ops.boosting import trainer
from opboost_ops.boosting.dp import noisy_leaves
from opboost_ops.boosting.frame import Parameters
from opboost_ops.boosting.metrics import evaluate
from opboost_ops.datasets import load

#: Parameters of random splits with epsilon alone.
PURE = {"trees": 20, "depth": 4, "learning_rate": 0.5}
LEAVES = {
    "trees": noisy_leaves.TREES,
    "depth": noisy_leaves.DEPTH,
    "learning_rate": noisy_leaves.RATE,
}

Scores = Callable[[OneTable, np.ndarray], np.ndarray]


def main() -> None:
    """Run the study and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=lambda text: text.split(","), default=["abalone"])
    parser.add_argument("--epsilon", type=_numbers, default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6, help="0 for epsilon alone")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pure", action="store_true", help="DPBoost and random splits, too")
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.dataset:
        table = OneTable(load(name), DOMAIN, FOLDS)
        for epsilon in options.epsilon:
            line = _measure(table, _ours(name, epsilon, options.delta), options.seeds)
            if options.pure:
                for kind in ("dpboost", "random"):
                    more = _measure(table, _pure(name, epsilon, kind), options.seeds)
                    line |= {f"{kind}_{key}": value for key, value in more.items()}
            found.setdefault(name, {})[f"{epsilon:g}"] = line
            print(name, epsilon, json.dumps(line), file=sys.stderr)
    print(json.dumps(found, indent=None if options.json else 1))


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _ours(name: str, epsilon: float, delta: float) -> Scores:
    if not delta:
        return _pure(name, epsilon, "random")
    known = parameters_of({"dataset": name, "epsilon": epsilon, "trees": 1})
    assert known.private is not None
    private = replace(known.private, random=True, delta=delta)
    return _model(replace(known, private=private, **LEAVES))


def _pure(name: str, epsilon: float, kind: str) -> Scores:
    known = parameters_of({"dataset": name, "epsilon": epsilon, "trees": 50})
    assert known.private is not None
    random = replace(known, private=replace(known.private, random=True), **PURE)
    return _model(random if kind == "random" else known)


def _model(parameters: Parameters) -> Scores:
    def scores(table: OneTable, test: np.ndarray) -> np.ndarray:
        model = trainer.train(table.rows(~test), table.label[~test], parameters)
        return trainer.predict(model, table.frame.matrix[test])

    return scores


def _measure(table: OneTable, scores: Scores, seeds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        test = table.fold == seed % FOLDS
        for key, value in _errors(table, scores(table, test), test).items():
            found.setdefault(key, []).append(value)
    line = {key: round(fmean(values), 4) for key, values in found.items()}
    if seeds > 1:
        line |= {f"{key}_sd": round(stdev(values), 4) for key, values in found.items()}
    return line


def _errors(table: OneTable, found: np.ndarray, test: np.ndarray) -> dict[str, float]:
    truth = table.label[test]
    if table.task == "binary":
        wrong = float(((found > 0.5) != (truth == 1)).mean())
        return {"error": wrong, "auc": evaluate("binary", truth, found)["auc"]}
    return {"rmse": float(np.sqrt(np.mean((found - truth) ** 2)))}


if __name__ == "__main__":
    main()
