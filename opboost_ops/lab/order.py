"""What is left of the order of real columns: OpBoost's Figures 4, 5, 10 and 11.

The weighted Kendall coefficient is measured on releases and stands beside its expectation, which
the channel and the column's distribution give without any release. gamma(t) is the least
probability, over all pairs of values t apart, that the greater one has the greater output. The
papers' beta, a function of epsilon, is taken here for the least over all pairs of different values,
which is the least gamma(t): once with ties as lost order, once with half of them, as the paper's
Theorem 4.6 has it; beside it stands the mean over all pairs. The paper's own statement of beta was
not at hand.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from opboost_ops.config.feature import Feature
from opboost_ops.datasets import load
from opboost_ops.datasets.tables import salaries
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.lab.experiment import Progress, run, summary
from opboost_ops.lab.ranges import SALARY_BOUNDS
from opboost_ops.lab.settings import (
    ALPHAS,
    EPSILONS,
    KEYS,
    epsilon_at,
    mechanism_of,
    method,
    shown,
)
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.order import (
    expected_weighted_kendall,
    gamma,
    pair_order,
    weighted_kendall,
)
from opboost_ops.stages import raw_table

#: The columns that are released, by table; salaries has one only.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "adult": ("age",),
    "powerplant": ("AT", "V", "AP", "RH"),
    "casp": tuple(f"F{i}" for i in range(1, 10)),
    "salaries": ("TotalPay",),
}
#: For a run that needs no public table.
GENERATED: Mapping[str, tuple[str, ...]] = {"credit": ("late_payments", "months_as_customer")}

#: Upper bounds of the domains, which begin at 1, and the lengths of partitions on them.
THETAS = {10: (2, 4), 100: (10,)}
#: At which mechanisms are compared beside their nominal epsilons.
EQUAL = {"loss_1": (0.1, 0.5, 1.0), "loss_whole": (1.0, 2.0, 4.0, 8.0)}
#: Distances at which gamma is told, where the domain has them.
DISTANCES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 20, 30, 50, 70, 99)

_PUBLIC = b"order of columns, nobody's keys."
_COLUMN = UUID("6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b14")


def methods(upper: int) -> list[dict[str, Any]]:
    """All mechanisms on [1, upper].

    Args:
        upper: One of `THETAS`.
    """
    made = [method("global_map"), method("geometric")]
    for theta in THETAS[upper]:
        made.append(method("local_map", theta))
        made += [method("adj_map", theta, alpha) for alpha in ALPHAS]
    # As many buckets as there are partitions of the shortest kind.
    buckets = upper // min(THETAS[upper])
    return [*made, method("piecewise"), method("bucket_response", buckets=buckets), method("grr")]


def experiment(
    work: Path,
    progress: Progress | None = None,
    *,
    columns: Mapping[str, Sequence[str]] = COLUMNS,
    domains: Sequence[int] = tuple(THETAS),
    epsilons: Sequence[float] = EPSILONS,
    equal: Mapping[str, Sequence[float]] = EQUAL,
    seeds: int = 10,
) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Args:
        work: Folder where measurements are kept.
        progress: Called with how many are done, and of how many.
        columns: What is released, by table.
        domains: Upper bounds, of `THETAS`.
        epsilons: Nominal ones.
        equal: Losses at which mechanisms are compared, by which loss.
        seeds: How many releases of every column.

    Returns:
        ``rows`` by nominal epsilon: for each setting and column the weighted Kendall coefficient,
        its spread over seeds, its expectation; gamma, beta and losses. ``equal``: expectations at
        equal loss, of mechanisms whose loss is finite.
    """
    named = [f"{table}.{column}" for table, of in columns.items() for column in of]
    asked = ",".join(named)
    cells = [
        {"columns": asked, "upper": upper, **m, "epsilon": epsilon, "seed": seed}
        for upper in domains
        for epsilon in epsilons
        for m in methods(upper)
        for seed in range(seeds)
    ]
    measured = run(cells, measure, work / "order.parquet", progress)
    by = ("upper", *KEYS)
    rows = [_row(line, named) for line in summary(measured, by, named)]
    same = [
        {"columns": asked, "upper": upper, "match": which, "target": target, **m}
        for upper in domains
        for which, targets in equal.items()
        for target in targets
        for m in methods(upper)
        if m["method"] != "local_map"
    ]
    matched = run(same, expect, work / "order_equal.parquet", progress)
    return {
        "name": "order",
        "columns": named,
        "lower": 1,
        "seeds": seeds,
        "distances": list(DISTANCES),
        "paper": "Figures 4, 5, 10 and 11 are pictures; their values are not at hand. Table 5 has "
        "a command of its own, table5.",
        "rows": rows,
        "equal": [_equal_row(row, named) for row in matched.iter_rows(named=True)],
    }


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """The weighted Kendall coefficient of one release of every column.

    Args:
        cell: A setting, a seed, and the columns' names.
    """
    domain, mechanism = Domain(1, cell["upper"]), mechanism_of(cell)
    found = {}
    for name in cell["columns"].split(","):
        values = _values(name, domain)
        secret = hashlib.sha256(f"{cell['seed']}/order".encode()).digest()
        context = name.encode()
        released = randomise(
            values, _keys(len(values)), mechanism, domain, context, secret, _COLUMN
        )
        found[name] = weighted_kendall(values, released)
    return found


def expect(cell: Mapping[str, Any]) -> dict[str, float]:
    """The epsilon at which a method has a given loss, and what is then expected of every column.

    Args:
        cell: A method, a loss, and the columns' names.
    """
    domain = Domain(1, cell["upper"])
    epsilon = epsilon_at(cell, domain, cell["match"], cell["target"])
    return {"epsilon": epsilon} | _expected({**cell, "epsilon": epsilon}, domain, cell["columns"])


def _expected(setting: Mapping[str, Any], domain: Domain, columns: str) -> dict[str, float]:
    channel = mechanism_of(setting).channel(domain)
    step, whole = end_losses(channel)
    found = {"loss_1": step, "loss_whole": whole}
    for name in columns.split(","):
        found[name] = expected_weighted_kendall(_marginal(name, domain), channel)
    return found


def _row(line: Mapping[str, Any], named: Sequence[str]) -> dict[str, Any]:
    domain = Domain(1, line["upper"])
    channel = mechanism_of(line).channel(domain)
    found = _expected(line, domain, ",".join(named))
    least = gamma(channel)
    greater, _ = pair_order(channel)
    return {
        **{key: line[key] for key in ("upper", *KEYS, "seeds")},
        "loss_1": shown(found["loss_1"]),
        "loss_whole": shown(found["loss_whole"]),
        "kendall": {name: round(line[name], 5) for name in named},
        "kendall_sd": {name: round(line[f"{name}_sd"], 5) for name in named},
        "expected": {name: round(found[name], 5) for name in named},
        "gamma": [round(float(least[t - 1]), 5) for t in DISTANCES if t < domain.size],
        "beta_least": round(float(least.min()), 5),
        "beta_half": round(float(gamma(channel, ties=0.5).min()), 5),
        "beta_mean": round(float(greater[np.tril_indices(domain.size, -1)].mean()), 5),
    }


def _equal_row(row: Mapping[str, Any], named: Sequence[str]) -> dict[str, Any]:
    keys = ("upper", "match", "target", *KEYS)
    return {key: row[key] for key in keys} | {
        "loss_1": shown(row["loss_1"]),
        "loss_whole": shown(row["loss_whole"]),
        "expected": {name: round(row[name], 5) for name in named},
    }


@lru_cache(maxsize=4)
def _keys(rows: int) -> np.ndarray:
    return noise.person_keys(_PUBLIC, pa.array(range(rows)), "integer")


@lru_cache(maxsize=64)
def _values(name: str, domain: Domain) -> np.ndarray:
    raw, mapping = _raw(name, domain)
    return mapping.encode(raw)


@lru_cache(maxsize=64)
def _marginal(name: str, domain: Domain) -> np.ndarray:
    return np.bincount(_values(name, domain) - domain.lower, minlength=domain.size)


def _raw(name: str, domain: Domain) -> tuple[np.ndarray, DomainMap]:
    table, column = name.split(".")
    if table == "salaries":
        return salaries().to_numpy(), DomainMap(domain, SALARY_BOUNDS)
    dataset = _loaded(table)
    (party,) = (p for p, declared in dataset.features.items() if column in declared)
    declared = dataset.features[party][column]
    feature = Feature.model_validate({"uuid": _COLUMN, **declared})
    values = dataset.tables[party].get_column(column)
    return raw_table.numbers(values, feature), feature.domain_map(domain)


_loaded = lru_cache(maxsize=2)(load)
