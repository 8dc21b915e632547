"""Private models on random splits: errors by epsilon, at a delta or without one.

All columns of a table in one place on [1, 32]. A seed holds one of five folds out and draws all
noise anew; figures are means over seeds. With a delta, leaf sums get Skellam noise and the whole
model has (epsilon, delta), see `opboost_ops.boosting.dp.noisy_leaves`; with ``--delta 0`` leaves
get Laplace noise and epsilon holds alone. ``--pure`` and ``--ebm`` train both of the pure trainers,
or DP-EBM (Nori et al., 2021), on the same folds.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

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
_EBM = "interpret-core==0.7.8"

Scores = Callable[[OneTable, np.ndarray], np.ndarray]


def main() -> None:
    """Run the study and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=lambda text: text.split(","), default=["abalone"])
    parser.add_argument("--epsilon", type=_numbers, default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6, help="0 for epsilon alone")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pure", action="store_true", help="DPBoost and random splits, too")
    parser.add_argument("--ebm", action="store_true", help="DP-EBM, too; installed for this run")
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
            if options.ebm:
                more = _measure(table, _ebm(epsilon, options.delta or 1e-6), options.seeds)
                line |= {f"ebm_{key}": value for key, value in more.items()}
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


def _ebm(epsilon: float, delta: float) -> Scores:
    """DP-EBM, given the same public bounds and categories."""
    try:
        glassbox = importlib.import_module("interpret.privacy")
    except ImportError:
        folder = tempfile.mkdtemp(prefix="interpret-")
        command = ["uv", "pip", "install", "--quiet", "--target", folder, _EBM, "scikit-learn"]
        subprocess.run(command, check=True)
        sys.path.append(folder)
        glassbox = importlib.import_module("interpret.privacy")

    def scores(table: OneTable, test: np.ndarray) -> np.ndarray:
        frame = table.frame
        types = ["nominal" if n in frame.categorical else "continuous" for n in frame.names]
        low = [min(frame.thresholds.get(n, (0.0,))) for n in frame.names]
        high = [max(frame.thresholds.get(n, (1.0,))) for n in frame.names]
        clipped = np.clip(frame.matrix, low, high)
        matrix = np.where([kind == "nominal" for kind in types], frame.matrix, clipped)
        settings: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "feature_types": types,
            "privacy_bounds": dict(enumerate(zip(low, high, strict=True))),
            "random_state": None,
        }
        columns = np.array(matrix, dtype=object)
        for i, kind in enumerate(types):
            if kind == "nominal":
                columns[:, i] = [f"c{code:g}" for code in frame.matrix[:, i]]
        if table.task == "binary":
            model = glassbox.DPExplainableBoostingClassifier(**settings)
            model.fit(columns[~test], table.label[~test].astype(int))
            return np.asarray(model.predict_proba(columns[test])[:, 1])
        settings |= {"privacy_target_min": 0.0, "privacy_target_max": 30.0}
        model = glassbox.DPExplainableBoostingRegressor(**settings)
        model.fit(columns[~test], table.label[~test])
        return np.asarray(model.predict(columns[test]))

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
