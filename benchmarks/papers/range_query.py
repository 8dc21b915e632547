"""Range queries on a randomised column: the workload of OpBoost's Figures 6 and 12.

A query asks which share of the rows lies in a range. It is answered three times: from the released
values as they are, by inverting the exact channel, and by expectation maximisation on it.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from uuid import UUID

import numpy as np

from benchmarks.papers import ahead, pictures, ranges
from benchmarks.papers.estimators import CONDITION, direct, inverse, likely
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.settings import (
    EPSILONS,
    KEYS,
    Which,
    compared,
    epsilon_at,
    equal_table,
    mechanism_of,
    method,
    name_of,
    shown,
)
from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.parameters import built
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy.loss import end_losses

SIZE = 1024
TABLES = ("salaries", "normal")
QUERIES = 10_000
#: Expectation maximisation takes as long as all else together: it sees the first repeats alone.
LIKELY_REPEATS = 10
#: At which mechanisms are compared beside the paper's epsilons, most of which cost much on a domain
#: of 1,024 values: half an epsilon for each of 1,023 steps.
EQUAL = {"loss_1": (0.16,), "loss_whole": (1.0, 4.0, 16.0)}

FIGURES = ("direct", "inverse", "likely")

_PUBLIC = b"range queries, nobody's secrets!"
_COLUMN = UUID("6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b13")


def methods(size: int = SIZE) -> list[dict[str, Any]]:
    """What is compared: partitions of a 32nd and of an eighth of the domain.

    Args:
        size: |D|.
    """
    short, long = max(2, size // 32), max(4, size // 8)
    return [
        method("global_map"),
        method("geometric"),
        *(method("adj_map", short, alpha) for alpha in (0.4, 2.0, 10.0)),
        method("adj_map", long, 2.0),
        method("local_map", short),
        method("local_map", long),
        method("piecewise"),
        method("bucket_response", buckets=size // short),
    ]


def run(options: Options) -> dict[str, Any]:
    """Measure all settings.

    Returns:
        ``rows`` by nominal epsilon and ``equal`` by loss: for each setting and estimate its mean
        squared error, and the spread over releases.
        ``blind``: the error of answers that look at no release and take all values for equally
        frequent, by table. ``ahead``: AHEAD's errors.
    """
    size, repeats, queries = options["size"], options.seeds, options["queries"]
    tables, epsilons = options["table"], options["epsilon"]
    about = {"size": size, "repeats": repeats, "queries": queries}
    nominal, matched = (
        [
            {**about, **setting, "table": table}
            for setting in compared(methods(size), targets)
            for table in tables
        ]
        for targets in ({"epsilon": epsilons}, EQUAL)
    )
    rows = measure_all(nominal, measure, "range_query", options)
    same = measure_all(matched, measure, "range_query_equal", options)
    asked = ranges.Queries.random(size, queries)
    beside = [*epsilons, *(t for targets in EQUAL.values() for t in targets)]
    return {
        "domain": [1, size],
        "queries": queries,
        "seeds": repeats,
        "likely_seeds": min(repeats, LIKELY_REPEATS),
        "salary_bounds": list(ranges.SALARY_BOUNDS),
        "synthetic_rows": ranges.SYNTHETIC_ROWS,
        "blind": {name: shown(_blind(name, Domain(1, size), asked)) for name in tables},
        "rows": [_line(row) for row in rows.iter_rows(named=True)],
        "equal": [_line(row) for row in same.iter_rows(named=True)],
        "ahead": rivals(tables, size, beside, repeats, queries),
    }


def rivals(
    tables: Sequence[str], size: int, epsilons: Sequence[float], repeats: int, queries: int
) -> list[dict[str, Any]]:
    """AHEAD's errors on the same tables and ranges; both its losses are its epsilon.

    Args:
        tables: Names.
        size: |D|.
        epsilons: Also those at which others are compared at equal loss.
        repeats: Runs; at most `LIKELY_REPEATS` of them.
        queries: Random ranges.

    Returns:
        Table, epsilon, mean squared error, its spread over runs, and mean number of leaves.
    """
    asked, lines = ranges.Queries.random(size, queries), []
    for name in tables:
        values = _values(name, Domain(1, size)) - 1
        truth = np.bincount(values, minlength=size).astype(np.float64)
        shares = asked.answers(truth[:, None])[:, 0] / len(values)
        for epsilon in sorted(set(epsilons)):
            runs = [
                ahead.grown(values, size, epsilon, hashlib.sha256(b"ahead %d" % i).digest())
                for i in range(min(repeats, LIKELY_REPEATS))
            ]
            errors = [float(((run.answers(asked) - shares) ** 2).mean()) for run in runs]
            line: dict[str, Any] = {"table": name, "epsilon": epsilon, "error": fmean(errors)}
            line["error_sd"] = stdev(errors) if errors[1:] else 0.0
            line["leaves"] = fmean(run.leaves for run in runs)
            lines.append({k: shown(v) if isinstance(v, float) else v for k, v in line.items()})
    return lines


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Release one table many times and answer all queries.

    Args:
        cell: A setting.

    Returns:
        ``epsilon``, both losses, and for each estimate the mean squared error and ``_sd`` over
        releases; NaN where there is none.
    """
    domain = Domain(1, cell["size"])
    epsilon = _epsilon(tuple(sorted((k, v) for k, v in cell.items() if k != "table")))
    setting = {**{key: cell[key] for key in KEYS if key != "epsilon"}, "epsilon": epsilon}
    channel, estimates = _prepared(tuple(setting.items()), domain)
    values = _values(cell["table"], domain)
    truth = np.bincount(values - 1, minlength=domain.size).astype(np.float64)
    released = _released(values, setting, domain, channel, cell["repeats"])
    queries = ranges.Queries.random(domain.size, cell["queries"])
    step, whole = end_losses(channel)
    found = {"epsilon": epsilon, "loss_1": step, "loss_whole": whole}
    for name, matrix in estimates.items():
        if matrix is None:
            found |= dict.fromkeys((name, f"{name}_sd"), math.nan)
        else:
            found |= _errors(name, matrix @ released, truth, queries)
    return found | _errors("likely", likely(channel, released[:, :LIKELY_REPEATS]), truth, queries)


@lru_cache(maxsize=1)
def _prepared(
    setting: tuple[tuple[str, Any], ...], domain: Domain
) -> tuple[Channel, dict[str, np.ndarray | None]]:
    """A channel, and the matrices of its linear estimates."""
    built.cache_clear()
    channel = mechanism_of(dict(setting)).channel(domain)
    unbiased, condition = inverse(channel)
    return channel, {
        "direct": direct(channel),
        "inverse": unbiased if condition <= CONDITION else None,
    }


@lru_cache(maxsize=1)
def _epsilon(cell: tuple[tuple[str, Any], ...]) -> float:
    given = dict(cell)
    if given["match"] == "epsilon":
        return float(given["target"])
    found = epsilon_at(given, Domain(1, given["size"]), given["match"], given["target"])
    built.cache_clear()
    return found


@lru_cache(maxsize=4)
def _values(name: str, domain: Domain) -> np.ndarray:
    return ranges.table(name, domain)


def _released(
    values: np.ndarray,
    setting: Mapping[str, Any],
    domain: Domain,
    channel: Channel,
    repeats: int,
) -> np.ndarray:
    """Rows by output, shape (outputs, repeats): a release to another receiver each."""
    place = np.full(domain.size, -1)
    place[channel.outputs - domain.lower] = np.arange(len(channel.outputs))
    mechanism = mechanism_of(setting)
    counts = np.empty((len(channel.outputs), repeats))
    for repeat in range(repeats):
        words = Words.seeded(_PUBLIC, f"{repeat}/range query")
        made = randomise(values, mechanism, domain, words)
        outputs = place[made - domain.lower]
        counts[:, repeat] = np.bincount(outputs, minlength=len(channel.outputs))
    return counts


def _blind(name: str, domain: Domain, queries: ranges.Queries) -> float:
    truth = np.bincount(_values(name, domain) - 1, minlength=domain.size).astype(np.float64)
    even = np.full((domain.size, 1), truth.sum() / domain.size)
    return _errors("blind", even, truth, queries)["blind"]


def _errors(
    name: str, estimate: np.ndarray, truth: np.ndarray, queries: ranges.Queries
) -> dict[str, float]:
    off = (queries.answers(estimate) - queries.answers(truth[:, None])) / truth.sum()
    errors = (off**2).mean(axis=0)
    spread = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
    return {name: float(errors.mean()), f"{name}_sd": spread}


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    figures = ("loss_1", "loss_whole", *(f"{f}{end}" for f in FIGURES for end in ("", "_sd")))
    line = {key: row[key] for key in ("match", "target", "table", *KEYS)}
    return line | {f: shown(row[f]) for f in figures}


#: Alphas of the table and the pictures (0: other mechanisms than Adj-map); the summary has all.
_ALPHAS = (0, 2)
#: Losses at which the table compares.
_SAME: tuple[tuple[Which, float], ...] = (("loss_1", 0.16), ("loss_whole", 4.0))


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, with its pictures drawn."""
    tables = list(found["blind"])
    for name in tables:
        _draw(found, name, folder / f"evaluation-range_query-{name}.svg")
    pay = "{:,.0f} to {:,.0f}".format(*found["salary_bounds"])
    parts = [
        "## Range queries",
        "Mean squared error of the share of rows in a range, over "
        f"{found['queries']:,} random ranges of [{found['domain'][0]}, {found['domain'][1]}] and "
        f"{found['seeds']} releases. Salaries are mapped linearly from {pay}; the synthetic table "
        f"has {found['synthetic_rows']:,} normal rows. `direct` counts released values as they "
        "are; ours are `inverse`, which inverts the channel, and `likely`, smoothed expectation "
        f"maximisation on {found['likely_seeds']} releases.",
    ]
    for name in tables:
        blind = found["blind"][name]
        parts += [
            f"### {name}",
            f"![Error by epsilon and by loss](figures/evaluation-range_query-{name}.svg)",
            f"Dotted: an answer without any release, {blind:.2e}.",
        ]
    first = tables[0]
    rows = [r for r in found["equal"] if r["table"] == first and r["alpha"] in _ALPHAS]
    parts += [
        f"{first} at equal loss (to 0.2 %): direct, inverse, likely. Local-map has no finite loss.",
        equal_table(rows, _SAME, _cell),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _draw(found: Mapping[str, Any], name: str, path: Path) -> None:
    figure, plots = pictures.canvas(columns=3, rows=2)
    nominal, all_ = found["rows"], [*found["rows"], *found["equal"]]
    for i, (rows, x, words) in enumerate(
        ((nominal, "epsilon", "nominal epsilon"), (all_, "loss_whole", "loss(R - L)"))
    ):
        shown: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["table"] == name and row["alpha"] in _ALPHAS:
                shown.setdefault(name_of(row), []).append(row)
        for plot, what in zip(plots[3 * i : 3 * i + 3], FIGURES, strict=True):
            pictures.paths(
                plot,
                {
                    method: [(float(r[x]), r[what]) for r in mine if r[what] is not None]
                    for method, mine in shown.items()
                },
            )
            plot.axhline(found["blind"][name], linestyle=":", color=pictures.COLOURS[3])
            plot.set_yscale("log")
            plot.set_ylim(3e-9, 10)
            pictures.name_axes(plot, f"{name}, {what}", words, "mean squared error")
    pictures.legend(plots[3])
    pictures.save(figure, path)


def _cell(row: Mapping[str, Any]) -> str:
    return ", ".join("none" if row[f] is None else f"{row[f]:.1e}" for f in FIGURES)


EXPERIMENTS = (
    Experiment(
        "range-query",
        "How well a randomised column answers range queries: as it is, inverted, by likelihood.",
        run,
        section,
        seeds=100,
        options={"table": TABLES, "size": SIZE, "epsilon": EPSILONS, "queries": QUERIES},
        quick={"seeds": 10, "table": ("normal",), "size": 32, "epsilon": (0.64,), "queries": 1000},
    ),
)
