"""Horizontal FederBoost beside LightGBM on the pooled table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import spread, table
from benchmarks.papers.measurements import measure_all, summary
from opboost_ops.config.columns import SharedColumn
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.tables import ID
from opboost_ops.learning import metrics
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.federboost import federboost
from opboost_ops.learning.federboost.federboost import Ensemble, Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.histogram_text import ColumnText, text_of
from opboost_ops.learning.federboost.objectives import Objective

DATASETS = ("give_me_some_credit", "credit_default")
DOMAIN = Domain(1, 65_536)
TREES, LAYERS, BUCKETS = 20, 3, 16
#: A small one and XGBoost's default; the paper's own is not known here.
RATES = (0.1, 0.3)
GROWTH = Growth(depth=LAYERS, learning_rate=0.1, penalty=1.0, min_node_rows=20)
_TRAIN = 2 / 3
OBJECTIVE = Objective("binary", 2)

#: The paper's figures: AUC in percent, by secure aggregation and on the pooled table.
PAPER = {
    "give_me_some_credit": {"horizontal": 86.25, "centralised": 86.10},
    "credit_default": {"horizontal": 78.25, "centralised": 78.04},
}

#: Public round bounds of the columns that the vertical split leaves with the label holder; a
#: missing value is declared to count as -1, and so is a value of its own, where it is not kept.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "age": (15, 110),
    "NumberOfDependents": (-1, 20),
    "MonthlyIncome": (-1, 50_000),
    "X2": (0, 3),
    "X3": (0, 7),
    "X4": (0, 4),
    "X5": (15, 110),
}
_MISSING = -1.0

#: Columns that miss values, and the lower bound of those that are there.
GAPS: Mapping[str, Mapping[str, float]] = {
    "give_me_some_credit": {"NumberOfDependents": 0, "MonthlyIncome": 0},
}

#: How missing values are declared.
NONE, FILLED, KEPT = "none", "filled", "kept"


@lru_cache(maxsize=2)
def pooled(
    name: str, missing: str = FILLED
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, tuple[bool, ...]]:
    """Everybody's rows: columns as domain integers, labels, the raw numbers, and what is kept.

    Args:
        name: Of a public table.
        missing: ``filled`` by a value of its own, or ``kept``: NaN among the raw numbers, and
            above the domain among the integers.
    """
    dataset = load(name)
    first, second = dataset.tables.values()
    table = first.join(second, on=ID, how="inner", maintain_order="left")
    declared = {n: f for features in dataset.features.values() for n, f in features.items()}
    gaps = GAPS.get(name, {}) if missing == KEPT else {}
    columns, raw = [], []
    for column, feature in declared.items():
        kept = column in gaps
        fill = float("nan") if kept else _MISSING
        values = table.get_column(column).cast(pl.Float64).fill_null(fill).to_numpy()
        lower, upper = _BOUNDS.get(column) or tuple(feature["bounds"])
        mapping = DomainMap(
            DOMAIN, (gaps.get(column, lower), upper), feature.get("scale", "linear")
        )
        shared = SharedColumn(column, column, mapping, None, b"", kept)
        columns.append(shared.integers(values))
        raw.append(values)
    label = table.get_column(dataset.label["column"]).to_numpy()
    return columns, label, np.column_stack(raw), tuple(column in gaps for column in declared)


def run(options: Options) -> dict[str, Any]:
    """AUC on a held-out third beside LightGBM on the pooled table."""
    cells = [
        {"dataset": name, "missing": missing, "learning_rate": rate, "seed": seed}
        for name in options["dataset"]
        for missing in ((FILLED, KEPT) if name in GAPS else (NONE,))
        for rate in RATES
        for seed in range(options.seeds)
    ]
    by = ("dataset", "missing", "learning_rate")
    figures = ("horizontal", "same_bins", "own_bins", "difference")
    measured = measure_all(cells, _measured, "horizontal", options) if cells else None
    return {
        "trees": TREES,
        "layers": LAYERS,
        "buckets": BUCKETS,
        "penalty": GROWTH.penalty,
        "min_node_rows": GROWTH.min_node_rows,
        "rows": [] if measured is None else summary(measured, by, figures),
        "paper": PAPER,
    }


def _measured(cell: Mapping[str, Any]) -> dict[str, float]:
    columns, label, raw, keeps = pooled(cell["dataset"], cell["missing"])
    return compared(columns, label, raw, cell["seed"], cell["learning_rate"], keeps)


def compared(
    columns: Sequence[np.ndarray],
    label: np.ndarray,
    raw: np.ndarray,
    seed: int,
    learning_rate: float = GROWTH.learning_rate,
    keeps: tuple[bool, ...] = (),
) -> dict[str, float]:
    """AUC in percent for one split into two thirds and a third.

    Args:
        columns: Domain integers, one array of shape (n,) a column.
        label: 0 or 1, shape (n,).
        raw: The numbers themselves, shape (n, columns).
        seed: Of the split.
        learning_rate: Shrinkage.
        keeps: Of each column, whether it misses values: NaN in `raw`.
    """
    growth = replace(GROWTH, learning_rate=learning_rate)
    # A permutation that only the seed names; the sort of keyed words is the experiment's own.
    order = np.argsort(words(seed, len(label)), kind="stable")
    train, test = np.split(order, [int(_TRAIN * len(order))])
    settings = Settings(OBJECTIVE, (DOMAIN,) * len(columns), TREES, BUCKETS, growth, keeps)
    # Of one party, which is to the bit what any number of parties gives (tests).
    ensemble = federboost.learn([c[train] for c in columns], label[train], settings, Alone())
    rows = settings.binned(columns, ensemble.edges)
    same = rows.bins.T.astype(np.float64)
    for at, (width, keep) in enumerate(zip(rows.widths, rows.keeps, strict=True)):
        if keep:
            same[rows.bins[at] == width - 1, at] = np.nan
    found = {
        "horizontal": auc(label[test], scores(ensemble, [c[test] for c in columns], keeps)),
        "same_bins": _lightgbm(same, label, train, test, growth, TREES, 1),
        "own_bins": _lightgbm(raw, label, train, test, growth, TREES, 3),
    }
    return {**found, "difference": found["horizontal"] - found["same_bins"]}


def scores(
    ensemble: Ensemble, columns: Sequence[np.ndarray], keeps: Sequence[bool] = ()
) -> np.ndarray:
    """Probabilities of rows by a model of two classes, float64, shape (n,).

    Args:
        ensemble: The model.
        columns: Domain integers, one array of shape (n,) a column.
        keeps: Of each column, whether it may miss values, which are above the domain.
    """
    matrix = np.column_stack(columns).astype(np.float64)
    ends = (DOMAIN.lower, DOMAIN.upper)
    texts = [
        ColumnText(f"c{i}", ends, float, keep)
        for i, keep in enumerate(keeps or (False,) * len(columns))
    ]
    for at, column in enumerate(texts):
        if column.keeps:
            matrix[matrix[:, at] > DOMAIN.upper, at] = np.nan
    return trainer.predict(text_of(ensemble, OBJECTIVE, texts), matrix)


def _lightgbm(
    matrix: np.ndarray,
    label: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    growth: Growth,
    trees: int,
    min_data_in_bin: int,
) -> float:
    """AUC of stock LightGBM with the same settings."""
    import lightgbm

    settings = {
        "objective": "binary",
        "learning_rate": growth.learning_rate,
        "lambda_l2": growth.penalty,
        "min_data_in_leaf": growth.min_node_rows,
        "max_depth": growth.depth,
        "num_leaves": 2**growth.depth,
        "min_data_in_bin": min_data_in_bin,
        "num_threads": 1,
        "verbosity": -1,
    }
    booster = lightgbm.train(settings, lightgbm.Dataset(matrix[train], label[train]), trees)
    return auc(label[test], np.asarray(booster.predict(matrix[test])))


def auc(truth: np.ndarray, score: np.ndarray) -> float:
    """AUC in percent of raw scores.

    Args:
        truth: 0 or 1, shape (n,).
        score: Shape (n,).
    """
    # Scores for probabilities: only their order counts.
    return 100 * metrics.evaluate("binary", truth, score)["auc"]


def words(seed: int, count: int) -> np.ndarray:
    """Words that only the seed names: nothing here protects anybody.

    Args:
        seed: Any number.
        count: How many words.
    """
    start = np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    with np.errstate(over="ignore"):
        words = start + np.arange(count, dtype=np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
        return words ^ (words >> np.uint64(31))


def section(found: Mapping[str, Any], _: Path) -> str:
    """Markdown."""
    seeds = max((row["seeds"] for row in found["rows"]), default=0)
    largest = max((row["learning_rate"] for row in found["rows"]), default=0)
    lines = [
        "## FederBoost, horizontal",
        "",
        f"AUC in percent on a held-out third, {found['trees']} trees of {found['layers']} levels "
        f"of splits at rate {largest:g}, {found['buckets']} buckets, lambda {found['penalty']:g}; "
        f"means of {seeds} splits. Any number of parties gives to the bit what one party gives on "
        "all rows, so one was measured.",
        "",
    ]
    heads = (
        *("dataset, missing values", "horizontal", "LightGBM, same bins", "difference"),
        *("LightGBM, own bins", "paper, horizontal", "paper, centralised"),
    )
    rows = []
    for row in found["rows"]:
        if row["learning_rate"] == largest:
            paper = found["paper"].get(row["dataset"], {})
            own = {"difference": spread(row, "difference", 3)}
            figures = ("horizontal", "same_bins", "difference", "own_bins")
            cells = [f"{row['dataset']}, {row['missing']}"]
            cells += [own.get(name) or f"{row[name]:.3f}" for name in figures]
            cells += [str(paper.get(n, "not known")) for n in ("horizontal", "centralised")]
            rows.append(cells)
    return "\n".join([*lines, table(heads, rows), ""])


EXPERIMENTS = (
    Experiment(
        "horizontal",
        "FederBoost with secure aggregation, beside LightGBM on the pooled table.",
        run,
        section,
        seeds=5,
        options={"dataset": DATASETS},
        quick={"seeds": 1, "dataset": DATASETS[1:]},
    ),
)
