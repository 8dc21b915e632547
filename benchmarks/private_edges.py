"""Where cells lie: linear, log1p, edges of a public sample and private edges, at equal loss.

Party B's columns on [1, 10], clamped geometric mechanism, plain LightGBM. At a loss of one step
each column's mechanism has that loss; with private edges it has less, by what the edges cost, so
that a person pays the same for a step. The public sample is 1,000 training rows, at no cost. R2,
AUC or accuracy of randomised and of clear test rows, means over seeds.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.papers.two_parties import DOMAIN, Scale, TwoParties
from opboost_ops.config.feature import Feature
from opboost_ops.domain import DomainMap, quantile_edges
from opboost_ops.extras.datasets import load
from opboost_ops.extras.lab.scales import kept
from opboost_ops.mechanisms import Geometric, noise
from opboost_ops.mechanisms.private_quantiles import draw, grid, weights

DATASETS = ("casp", "give_me_some_credit", "adult", "powerplant", "pendigits", "abalone")
SAMPLE = 1000
EDGES = "0.02,0.1"
_KEY = b"a public key, for benchmarks ..."


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default=",".join(DATASETS))
    parser.add_argument("--loss", default="0.5,1", help="of one step, edges included")
    parser.add_argument("--edges", default=EDGES, help="epsilons of private edges")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    losses = [float(loss) for loss in options.loss.split(",")]
    edges = [float(epsilon) for epsilon in options.edges.split(",")]
    found = []
    for name in options.dataset.split(","):
        for line in metrics(name, losses, edges, options.seeds):
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
        scales: dict[str, Scale] = {
            "linear": partial(formula, scale="linear"),
            "log1p": partial(formula, scale="log1p"),
            "public sample": partial(sampled, seed=seed),
            "plan": partial(planned, seed=seed),
        }
        costs: dict[str, float] = {}
        for epsilon in edges:
            words = f"private {epsilon:g}"
            scales[words] = partial(private, epsilon=epsilon, seed=seed)
            costs[words] = epsilon
        for words, scale in scales.items():
            table = TwoParties(dataset, scale, seed)
            for loss in losses:
                left = loss - costs.get(words, 0.0)
                found = table.figures(Geometric(epsilon=left), seed)
                figures.setdefault((loss, words), []).append(found)
    for (loss, words), pairs in figures.items():
        desensitised, clear = (round(fmean(pair[i] for pair in pairs), 4) for i in (0, 1))
        line = {"dataset": name, "loss_1": loss, "cells": words, "seeds": seeds}
        yield {**line, "desensitised": desensitised, "clear": clear}


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


def planned(name: str, feature: Feature, values: np.ndarray, *, seed: int) -> DomainMap:
    """What `opboost plan --write` would choose of these three by the same sample."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    sample = np.random.default_rng(seed).choice(values, min(SAMPLE, len(values)), replace=False)
    maps = {
        "linear": formula(name, feature, values, scale="linear"),
        "log1p": formula(name, feature, values, scale="log1p"),
        "edges": sampled(name, feature, values, seed=seed),
    }
    inside = np.clip(sample, *maps["linear"].bounds)
    ranks = rankdata(inside)

    def order(kind: str) -> float:
        return kept(inside, maps[kind], Geometric(epsilon=0.5), DOMAIN, ranks)[0]

    return maps[max(maps, key=order)]


def private(
    name: str, feature: Feature, values: np.ndarray, *, epsilon: float, seed: int
) -> DomainMap:
    """Cells by private edges."""
    if not numeric(feature):
        return feature.domain_map(DOMAIN)
    assert feature.bounds is not None
    points = grid(feature.bounds)
    below = np.searchsorted(np.sort(values), points, side="right")
    key = noise.keyed_by(_KEY, f"{name} {seed} {epsilon}")
    edges = points[list(recursive(below, len(values), epsilon, key))]
    return DomainMap(DOMAIN, feature.bounds, "edges", tuple(float(edge) for edge in edges))


def recursive(below: np.ndarray, people: int, epsilon: float, key: bytes) -> Sequence[int]:
    """The places of all edges by the mechanism that is released."""
    cells = DOMAIN.size
    return draw(below, people, weights(cells, epsilon), cells, noise.Words(key).below)


if __name__ == "__main__":
    main()
