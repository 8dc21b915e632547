"""Everybody scored: `overlap: left` beside training on the common people alone.

Party B has a share of party A's people. `common` trains on these alone, `left` on all training rows
of A, with missing values where B lacks the person; `alone` trains on all rows of A without B's
columns. All test rows are scored twice: as people whom B has, with B's columns, and as people whom
it lacks, without. Clamped geometric mechanism on [1, 10], plain LightGBM; B's cells are linear,
log1p, or what `plan --write` chooses of these and edges by a public sample of 1,000 rows. R2 or
AUC, means over seeds of split, noise and who is common; `worst` is the least difference of a seed.
"""

import argparse
import json
from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.papers.denoise import divided
from benchmarks.papers.two_parties import TwoParties
from benchmarks.private_edges import formula, planned
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.mechanisms import Geometric


def main() -> None:
    """Run the benchmark and print its figures, a line for each share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--overlap", default="0.1,0.3", help="shares of A's people whom B has")
    parser.add_argument("--epsilon", type=float, default=0.64)
    parser.add_argument("--cells", choices=("linear", "log1p", "plan"), default="plan")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    for share in options.overlap.split(","):
        given = (options.dataset, float(share), options.epsilon, options.cells, options.seeds)
        for line in summary(*given):
            print(json.dumps(line), flush=True)


def summary(
    name: str, share: float, epsilon: float, cells: str, seeds: int
) -> Iterator[dict[str, Any]]:
    """Means over seeds, by who is scored and on which rows."""
    found = [measured(name, share, epsilon, cells, seed) for seed in range(seeds)]
    for rows in ("complete, clear", "complete, desensitised", "own"):
        first, second = ("alone", "left") if rows == "own" else ("common", "left")
        pairs = [(of[first, rows], of[second, rows]) for of in found]
        yield {
            "dataset": name, "overlap": share, "epsilon": epsilon, "cells": cells,
            "seeds": seeds, "rows": rows,
            "alone": round(fmean(of["alone", "own"] for of in found), 4),
            first: round(fmean(pair[0] for pair in pairs), 4),
            second: round(fmean(pair[1] for pair in pairs), 4),
            "worst": round(min(pair[1] - pair[0] for pair in pairs), 4),
        }  # fmt: skip


def measured(
    name: str, share: float, epsilon: float, cells: str, seed: int
) -> dict[tuple[str, str], float]:
    """The metric by what was trained, and on which rows it is tested."""
    scale = partial(planned, seed=seed) if cells == "plan" else partial(formula, scale=cells)
    table = TwoParties(divided(name), scale, seed)
    mechanism = Geometric(epsilon=epsilon)
    parameters = table.parameters(seed)
    label = table.label[: table.train]
    whole, clear = table.frames("geometric", mechanism)
    there = np.random.default_rng(seed).random(table.train) < share
    tests = {"complete, clear": clear, "complete, desensitised": table.desensitised(mechanism)}
    theirs = np.isin(whole.names, whole.ranked)
    tests["own"] = np.where(theirs, np.nan, clear)
    found: dict[tuple[str, str], float] = {}
    left = Frame(
        whole.names, np.asfortranarray(np.where(theirs & ~there[:, None], np.nan, whole.matrix)),
        whole.categorical, whole.ranked,
    )  # fmt: skip
    for kind, frame, rows in (
        ("common", whole.rows(there), there),
        ("left", left, np.ones(table.train, dtype=bool)),
    ):
        model = trainer.train(frame, label[rows], parameters)
        model = table.materialised(model, frame, missing=kind == "left")
        for test, matrix in tests.items():
            found[kind, test] = table.figure(model, matrix)
    frame, test = table.frames("alone")
    return {**found, ("alone", "own"): table.figure(table.trained(frame, parameters), test)}


if __name__ == "__main__":
    main()
