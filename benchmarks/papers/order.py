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
from statistics import fmean
from typing import Any
from uuid import UUID

import numpy as np
from matplotlib.axes import Axes

from benchmarks.papers import pictures
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.measurements import measure_all, summary
from benchmarks.papers.order_measures import gamma, weighted_kendall
from benchmarks.papers.ranges import SALARY_BOUNDS, salaries
from benchmarks.papers.settings import (
    ALPHAS,
    EPSILONS,
    KEYS,
    compared,
    epsilon_at,
    mechanism_of,
    method,
    name_of,
    shown,
)
from opboost_ops.config.feature import Feature
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.extras.datasets import load
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.planner import expected_weighted_kendall, pair_order

#: The columns that are released, by table; salaries has one only.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "adult": ("age",),
    "powerplant": ("AT", "V", "AP", "RH"),
    "casp": tuple(f"F{i}" for i in range(1, 10)),
    "salaries": ("TotalPay",),
    # Generated, for a run that needs no public table.
    "credit": ("late_payments", "months_as_customer"),
}

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


def run(options: Options) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Returns:
        ``rows`` by nominal epsilon: for each setting and column the weighted Kendall coefficient,
        its spread over seeds, its expectation; gamma, beta and losses. ``equal``: expectations at
        equal loss, of mechanisms whose loss is finite.
    """
    named = [f"{table}.{column}" for table in options["dataset"] for column in COLUMNS[table]]
    asked = ",".join(named)
    cells = [
        {"columns": asked, "upper": upper, **m, "epsilon": epsilon, "seed": seed}
        for upper in options["upper"]
        for epsilon in options["epsilon"]
        for m in methods(upper)
        for seed in range(options.seeds)
    ]
    measured = measure_all(cells, measure, "order", options)
    by = ("upper", *KEYS)
    rows = [_row(line, named) for line in summary(measured, by, named)]
    same = [
        {"columns": asked, "upper": upper, **setting}
        for upper in options["upper"]
        for setting in compared(methods(upper), EQUAL)
    ]
    matched = measure_all(same, expect, "order_equal", options)
    return {
        "columns": named,
        "lower": 1,
        "seeds": options.seeds,
        "distances": list(DISTANCES),
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
        released = randomise(values, mechanism, domain, Words.seeded(secret, name))
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
        return salaries(), DomainMap(domain, SALARY_BOUNDS)
    dataset = _loaded(table)
    (party,) = (p for p, declared in dataset.features.items() if column in declared)
    declared = dataset.features[party][column]
    feature = Feature.model_validate({"uuid": _COLUMN, **declared})
    values = dataset.tables[party].get_column(column)
    return raw_table.numbers(values, feature), feature.domain_map(domain)


_loaded = lru_cache(maxsize=2)(load)


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, with its pictures drawn."""
    _draw(found, folder)
    rows = found["rows"]
    off = max(abs(row["kendall"][c] - row["expected"][c]) for row in rows for c in found["columns"])
    parts = [
        "## Order of columns",
        f"{len(found['columns'])} columns of public tables on their declared bounds, "
        f"{found['seeds']} seeds. The weighted Kendall coefficient weighs a pair of rows by the "
        "distance of its dense ranks and counts a tie as 0. Its expectation follows from the "
        f"channel: measured means are at most {off:.4f} away.",
        "![Weighted Kendall by epsilon](figures/evaluation-order.svg)",
    ]
    parts += [
        "### Pairs of values",
        "gamma(t) is the least probability, over pairs of values t apart, that the greater value "
        "has the greater output; beta is the least over all pairs of different values, with ties "
        "counted as a half or as lost. The paper's own definition of beta was not available.",
        "![gamma by distance](figures/evaluation-order-gamma.svg)",
        "![beta by epsilon](figures/evaluation-order-beta.svg)",
    ]
    return "\n\n".join(parts) + "\n"


def _draw(found: Mapping[str, Any], folder: Path) -> None:
    uppers = _uppers(found["rows"])
    figure, plots = pictures.canvas(columns=2, rows=len(uppers))
    for i, upper in enumerate(uppers):
        left, right = plots[2 * i : 2 * i + 2]
        shown = _picked([row for row in found["rows"] if row["upper"] == upper])
        _by(left, shown, "epsilon", "kendall")
        title = f"[{found['lower']}, {upper}], mean of {len(found['columns'])} columns"
        pictures.name_axes(left, title, "nominal epsilon", "weighted Kendall, measured")
        _by(right, shown, "loss_whole", "kendall")
        pictures.name_axes(right, title, "loss(R - L)", "weighted Kendall, measured")
        # Curves begin low there, so that a legend hides none.
        pictures.legend(right)
    pictures.save(figure, folder / "evaluation-order.svg")

    figure, plots = pictures.canvas(columns=len(uppers))
    for plot, upper in zip(plots, uppers, strict=True):
        rows = [row for row in found["rows"] if row["upper"] == upper]
        epsilons = sorted({row["epsilon"] for row in rows})
        near = min(epsilons, key=lambda e: abs(e - 0.32))
        lines = {
            n: next(r for r in mine if r["epsilon"] == near) for n, mine in _picked(rows).items()
        }
        distances = [t for t in found["distances"] if t < upper]
        pictures.lines(plot, distances, {n: row["gamma"] for n, row in lines.items()})
        title = f"[{found['lower']}, {upper}], epsilon {near:g}"
        pictures.name_axes(plot, title, "distance t", "gamma(t)")
    pictures.save(figure, folder / "evaluation-order-gamma.svg")

    figure, plots = pictures.canvas(columns=2, rows=len(uppers))
    for i, upper in enumerate(uppers):
        shown = _picked([row for row in found["rows"] if row["upper"] == upper])
        for plot, key, what in zip(
            plots[2 * i : 2 * i + 2],
            ("beta_half", "beta_mean"),
            ("least over pairs, ties half", "mean over pairs, ties lost"),
            strict=True,
        ):
            _by(plot, shown, "epsilon", key)
            title = f"[{found['lower']}, {upper}], {what}"
            pictures.name_axes(plot, title, "nominal epsilon", "Pr[order kept]")
        pictures.legend(plots[2 * i])
    pictures.save(figure, folder / "evaluation-order-beta.svg")


def _by(plot: Axes, shown: Mapping[str, Sequence[Mapping[str, Any]]], x: str, y: str) -> None:
    curves = {
        name: [(float(r[x]), _mean(r, y) if y == "kendall" else r[y]) for r in rows]
        for name, rows in shown.items()
    }
    pictures.paths(plot, curves)


def _picked(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """One of each kind: the longest partitions, the least and the largest alpha."""
    theta = max(row["theta"] for row in rows)
    alphas = {row["alpha"] for row in rows if row["alpha"]}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["method"] in ("local_map", "adj_map") and row["theta"] != theta:
            continue
        if row["method"] == "adj_map" and row["alpha"] not in (min(alphas), max(alphas)):
            continue
        if row["method"] != "grr":
            found.setdefault(name_of(row), []).append(row)
    return found


def _uppers(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return list(dict.fromkeys(row["upper"] for row in rows))


def _mean(row: Mapping[str, Any], figure: str) -> float:
    return fmean(row[figure].values())


EXPERIMENTS = (
    Experiment(
        "order",
        "What is left of the order of real columns: weighted Kendall, gamma and beta by epsilon.",
        run,
        section,
        seeds=10,
        options={"dataset": tuple(COLUMNS)[:4], "upper": tuple(THETAS), "epsilon": EPSILONS},
        quick={"seeds": 2, "dataset": ("credit",), "upper": (10,), "epsilon": (0.64,)},
    ),
)
