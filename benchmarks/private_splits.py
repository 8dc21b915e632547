"""Random splits beside DPBoost's at the same guarantee: errors of models by epsilon.

Abalone (root mean squared error in rings) and adult (share of wrong classes), all columns in one
place on [1, 32]. A seed holds one of five folds out and draws all noise anew. DPBoost has its
defaults, 50 trees of depth 6 at rate 0.1; random splits theirs, 20 of depth 4 at 0.5. *Constant*
says the mean of the training labels or the commonest class, and is not private.
"""

import argparse
import json
import sys
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np

from benchmarks.papers.dpboost import DOMAIN, FOLDS, parameters_of
from benchmarks.papers.one_table import OneTable
from opboost_ops.boosting import trainer
from opboost_ops.boosting.frame import Parameters
from opboost_ops.datasets import load

RANDOM = {"trees": 20, "depth": 4, "learning_rate": 0.5}


def main() -> None:
    """Run the study and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", nargs="+", default=["abalone", "adult"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one line")
    options = parser.parse_args()
    found = [
        line for name in options.dataset for line in study(name, options.epsilon, options.seeds)
    ]
    print(json.dumps({"seeds": options.seeds, "rows": found}, indent=None if options.json else 1))


def study(name: str, epsilons: list[float], seeds: int) -> list[dict[str, object]]:
    """Mean errors of a table, and how often random splits were better."""
    table = OneTable(load(name), DOMAIN, FOLDS)
    lines = []
    for epsilon in epsilons:
        dpboost = parameters_of({"dataset": name, "epsilon": epsilon, "trees": 50})
        assert dpboost.private is not None
        other = replace(dpboost, private=replace(dpboost.private, random=True), **RANDOM)
        errors: dict[str, list[float]] = {"dpboost": [], "random": [], "constant": []}
        for seed in range(seeds):
            errors["dpboost"].append(error(table, dpboost, seed))
            errors["random"].append(error(table, other, seed))
            errors["constant"].append(constant(table, seed))
        line: dict[str, object] = {"dataset": name, "epsilon": epsilon}
        for kind, values in errors.items():
            line[kind] = round(fmean(values), 4)
            line[f"{kind}_sd"] = round(stdev(values), 4) if seeds > 1 else 0.0
        pairs = zip(errors["random"], errors["dpboost"], strict=True)
        line["better"] = sum(one < two for one, two in pairs)
        lines.append(line)
        print(json.dumps(line), file=sys.stderr)
    return lines


def error(table: OneTable, parameters: Parameters, seed: int) -> float:
    """Of one model on the fold that it has not seen."""
    test = table.fold == seed % FOLDS
    model = trainer.train(table.rows(~test), table.label[~test], parameters)
    return distance(table, trainer.predict(model, table.frame.matrix[test]), test)


def constant(table: OneTable, seed: int) -> float:
    """Of the training labels' mean."""
    test = table.fold == seed % FOLDS
    return distance(table, np.full(test.sum(), table.label[~test].mean()), test)


def distance(table: OneTable, found: np.ndarray, test: np.ndarray) -> float:
    """Share of wrong classes, or root mean squared error."""
    truth = table.label[test]
    if table.task == "binary":
        return float(((found > 0.5) != (truth == 1)).mean())
    return float(np.sqrt(np.mean((found - truth) ** 2)))


if __name__ == "__main__":
    main()
