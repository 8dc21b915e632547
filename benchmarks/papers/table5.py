"""Order preservation by distance of partitions: the workload of OpBoost's Table 5."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.order_measures import halved_partition_gamma, partition_gamma
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import AdjMap, GeneralisedResponse, LocalMap
from opboost_ops.mechanisms.parameters import Partitions

DOMAIN = Domain(1, 100)
THETA = 10
EPSILON = 0.1
ALPHAS = (0.2, 0.4, 0.5, 0.6, 0.8, 1.0, 2.0, 5.0)

NOTES = (
    "dist is the distance of the two values' partitions, 0 inside one",
    "exact: the least probability, over all pairs of values at that distance, that the output of "
    "the greater value is greater, enumerated from the integer table that is sampled",
    "formula: the argument about partitions alone, which counts half of the cases in which "
    "both outputs share a partition (Adj-map, Local-map) or a value (GRR); epsilon_ner with "
    "|D| = R - L = 99. It is not a lower bound: see docs/reference/errata.md",
)


def run(_: Options) -> dict[str, Any]:
    """The table.

    Returns:
        ``rows``, each with its ``method`` and ``cells`` of ``dist``, ``formula`` and ``exact``;
        and ``notes`` that say what the three are.
    """
    parts = Partitions.of_length(DOMAIN, THETA)
    distances = range(len(parts.starts))
    rows = []
    for name, epsilon in (("GRR(epsilon)", EPSILON), ("GRR(theta epsilon)", THETA * EPSILON)):
        response = GeneralisedResponse(epsilon=epsilon).channel(DOMAIN)
        # s is how much likelier the own value is than any other.
        s = float(response.probabilities()[0, 0] - response.probabilities()[0, 1])
        nearest = [max(1, (k - 1) * THETA + 1) for k in distances]
        formula = {
            k: 0.5 + s * s / 2 + s * (1 - s) * t / DOMAIN.size
            for k, t in zip(distances, nearest, strict=True)
        }
        rows.append(_row(name, formula, partition_gamma(response, parts)))
    local = LocalMap(epsilon=EPSILON, theta=THETA).channel(DOMAIN)
    halved = {k: 1.0 if k else 0.5 for k in distances}
    rows.append(_row("Local-map", halved, partition_gamma(local, parts)))
    for alpha in ALPHAS:
        mechanism = AdjMap(epsilon=EPSILON, theta=THETA, alpha=alpha)
        formula = halved_partition_gamma(mechanism, DOMAIN, DOMAIN.size - 1)
        exact = partition_gamma(mechanism.channel(DOMAIN), parts)
        rows.append(_row(f"Adj-map, alpha {alpha:g}", formula, exact))
    return {
        "domain": [DOMAIN.lower, DOMAIN.upper],
        "theta": THETA,
        "epsilon": EPSILON,
        "rows": rows,
        "notes": list(NOTES),
    }


def _row(method: str, formula: dict[int, float], exact: dict[int, float]) -> dict[str, Any]:
    cells = [
        {"dist": k, "formula": round(formula[k], 6), "exact": round(exact[k], 6)} for k in exact
    ]
    return {"method": method, "cells": cells}


def section(found: Mapping[str, Any], _: Path) -> str:
    """The table as Markdown, exact probabilities beside the formula's."""
    distances = [str(cell["dist"]) for cell in found["rows"][0]["cells"]]
    lines = [
        [row["method"], *(f"{c['exact']:.4f} ({c['formula']:.4f})" for c in row["cells"])]
        for row in found["rows"]
    ]
    notes = "\n".join(f"- {note}" for note in found["notes"])
    return f"## Order preservation: Table 5\n\n{table(['dist', *distances], lines)}\n\n{notes}\n"


EXPERIMENTS = (
    Experiment(
        "table5",
        "Order preservation by distance: enumerated, and as the argument about partitions has it.",
        run,
        section,
    ),
)
