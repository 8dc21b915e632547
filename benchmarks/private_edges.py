"""Where cells lie: linear, log1p, edges of a public sample and private edges, at equal loss.

Party B's columns on [1, 10], clamped geometric mechanism, plain LightGBM. At a loss of one step
each column's mechanism has that loss; with private edges it has less, by what the edges cost, so
that a person pays the same for a step. The public sample is 1,000 training rows, at no cost. R2 or
AUC or accuracy of randomised and of clear test rows, means over seeds. `--ranks` compares joint and
recursive private quantiles instead, by how far edges lie from where they should, in cells.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.papers.accuracy import DEPTH, HELD_OUT, RATE, TREES
from benchmarks.papers.two_parties import TwoParties
from opboost_ops.boosting import trainer
from opboost_ops.boosting.dp import noise as model_noise
from opboost_ops.boosting.frame import Parameters
from opboost_ops.config.feature import Feature
from opboost_ops.datasets import load
from opboost_ops.domain import Domain, DomainMap, quantile_edges
from opboost_ops.mechanisms import Geometric, noise
from opboost_ops.mechanisms.private_quantiles import JointQuantiles, grid, weights

DATASETS = ("casp", "give_me_some_credit", "adult", "powerplant", "pendigits", "abalone")
DOMAIN = Domain(1, 10)
SAMPLE = 1000
EDGES = "0.02,0.1"
_BENCHMARK_KEY = b"a public key, for a benchmark only"[:32]


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default=",".join(DATASETS))
    parser.add_argument("--loss", default="0.5,1", help="of one step, edges included")
    parser.add_argument("--edges", default=EDGES, help="epsilons of private edges")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ranks", action="store_true", help="compare ways to draw edges")
    options = parser.parse_args()
    losses = [float(loss) for loss in options.loss.split(",")]
    edges = [float(epsilon) for epsilon in options.edges.split(",")]
    found = []
    for name in options.dataset.split(","):
        lines = (
            ranks(name, edges[-1], options.seeds)
            if options.ranks
            else metrics(name, losses, edges, options.seeds)
        )
        for line in lines:
            print(json.dumps(line), file=sys.stderr)
            found.append(line)
    print(json.dumps(found))


def metrics(
    name: str, losses: list[float], edges: list[float], seeds: int
) -> Iterator[dict[str, Any]]:
    """Metrics of models by where cells lie, at each loss of one step."""
    dataset = load(name)
    figures: dict[tuple[float, str], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        scales = {
            "linear": partial(formula, scale="linear"),
            "log1p": partial(formula, scale="log1p"),
            "public sample": partial(sampled, seed=seed),
            **{f"private {e:g}": partial(private, epsilon=e, seed=seed) for e in edges},
        }
        costs = {f"private {epsilon:g}": epsilon for epsilon in edges}
        for words, scale in scales.items():
            table = TwoParties(dataset, DOMAIN, scale, HELD_OUT, seed)
            for loss in losses:
                left = loss - costs.get(words, 0.0)
                figures.setdefault((loss, words), []).append(measured(table, left, seed))
    for (loss, words), pairs in figures.items():
        desensitised, clear = (round(fmean(pair[i] for pair in pairs), 4) for i in (0, 1))
        line = {"dataset": name, "loss_1": loss, "cells": words, "seeds": seeds}
        yield {**line, "desensitised": desensitised, "clear": clear}


def measured(table: TwoParties, loss: float, seed: int) -> tuple[float, float]:
    """The metric on randomised and on clear test rows."""
    mechanism = Geometric(epsilon=loss)
    parameters = Parameters(table.task, table.classes, TREES, RATE, DEPTH, seed)
    frame, test = table.frames("geometric", mechanism)
    model = trainer.train(frame, table.label[: table.train], parameters)
    model = table.materialised(model, frame)
    key = "metric" if table.task == "multiclass" else "second"
    noisy = table.desensitised(mechanism)
    both = [table.evaluated(trainer.predict(model, rows))[key] for rows in (noisy, test)]
    return both[0], both[1]


def numeric(feature: Feature) -> bool:
    """Whether a column has a range to lay cells on: a boolean one has two values."""
    return feature.type == "numeric" and feature.bounds not in (None, (0.0, 1.0))


def formula(_: str, feature: Feature, __: np.ndarray, *, scale: str) -> DomainMap:
    """Cells of equal width, or of equal width in log1p of the distance from the lower bound."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    assert feature.bounds is not None
    return DomainMap(DOMAIN, feature.bounds, scale)


def sampled(_: str, feature: Feature, values: np.ndarray, *, seed: int) -> DomainMap:
    """Cells of equal shares of a sample."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    assert feature.bounds is not None
    rows = np.random.default_rng(seed).choice(len(values), min(SAMPLE, len(values)), replace=False)
    sample = np.clip(values[rows], *feature.bounds)
    if sample.min() == sample.max():
        return feature.domain_map(DOMAIN)
    return DomainMap(DOMAIN, feature.bounds, "edges", quantile_edges(sample, DOMAIN.size))


def private(
    name: str, feature: Feature, values: np.ndarray, *, epsilon: float, seed: int
) -> DomainMap:
    """Cells by private edges."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    assert feature.bounds is not None
    points = grid(feature.bounds)
    below = np.searchsorted(np.sort(values), points, side="right")
    key = noise.keyed_by(_BENCHMARK_KEY, f"{name} {seed} {epsilon}")
    edges = points[list(joint(below, len(values), epsilon, DOMAIN.size, key))]
    return DomainMap(DOMAIN, feature.bounds, "edges", tuple(float(edge) for edge in edges))


def joint(below: np.ndarray, people: int, epsilon: float, cells: int, key: bytes) -> list[int]:
    """The places of all edges by the mechanism that is released."""
    made = JointQuantiles(below, people, weights(cells, epsilon), cells)
    numbers = iter(range(cells))
    return list(made.draw(lambda bound: noise.uniform_below(key, next(numbers), bound)))


def recursive(below: np.ndarray, people: int, epsilon: float, cells: int) -> list[int]:
    """The same by medians of halves (Kaplan, Schnapp and Stemmer 2022), which a level shares.

    Somebody who is replaced moves two parts of a level, and a score of each by one.
    """
    levels = math.ceil(math.log2(cells))
    factor = Fraction(epsilon).limit_denominator(10**6) / (4 * levels)
    found: list[int] = []

    def split(first: int, last: int, low: int, high: int) -> None:
        """Draw the edges first..last - 1 between two points of the grid."""
        if first >= last or low >= high:
            return
        middle = (first + last) // 2
        begin = below[low - 1] if low else 0
        end = below[high] if high < len(below) else people
        inside = below[low:high] - begin
        # Parts of unequal size have a share other than a half, and the utility moves by it.
        share = Fraction(middle - first + 1, last - first + 1)
        above = share.denominator - share.numerator
        score = -np.abs(inside * above - (end - begin - inside) * share.numerator)
        most = max(share.numerator, above)
        at = low + int(model_noise.choose(score[None, :], factor / most)[0])
        found.append(at)
        split(first, middle, low, at)
        split(middle + 1, last, at + 1, high)

    split(0, cells - 1, 0, len(below))
    return sorted(found)


def ranks(name: str, epsilon: float, seeds: int) -> Iterator[dict[str, Any]]:
    """How far edges lie from exact quantiles, in cells: the mean over edges and columns."""
    dataset = load(name)
    table = TwoParties(dataset, DOMAIN, lambda _, f, __: f.domain_map(DOMAIN), HELD_OUT, 0)
    frame, _ = table.frames("raw")
    for cells in (4, 10, 32):
        errors: dict[str, list[float]] = {"joint": [], "recursive": []}
        for place, column in enumerate(frame.names):
            mapping = table.maps.get(column)
            values = np.asarray(frame.matrix[:, place], dtype=np.float64)
            # Where many values are equal there are no quantiles to miss.
            if mapping is None or len(np.unique(values)) < len(values) / 20:
                continue
            points = grid(mapping.bounds)
            below = np.searchsorted(np.sort(values), points, side="right")
            wanted = np.arange(1, cells)
            for seed in range(seeds):
                key = noise.keyed_by(_BENCHMARK_KEY, f"{column} {seed} {cells} {epsilon}")
                drawn = {
                    "joint": joint(below, len(values), epsilon, cells, key),
                    "recursive": recursive(below, len(values), epsilon, cells),
                }
                for way, places in drawn.items():
                    if len(places) == cells - 1:
                        off = np.abs(below[places] * cells / len(values) - wanted)
                        errors[way].append(float(off.mean()))
        line = {"dataset": name, "cells": cells, "epsilon": epsilon, "rows": len(frame.matrix)}
        yield {**line, **{way: round(fmean(found), 4) for way, found in errors.items() if found}}


if __name__ == "__main__":
    main()
