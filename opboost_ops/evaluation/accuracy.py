"""What protection leaves of accuracy: the workload of OpBoost's Table 6 and Figures 7 to 9 and 13.

Parties A and B of the paper in one process: B's columns are laid on the domain, randomised by the
very code that a feature holder runs, and ranked; A trains on the ranks, and the model is put on
values and tested on unrandomised rows (mode clear), as the paper does.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from opboost_ops.boosting import metrics, splits, trainer
from opboost_ops.boosting.trainer import Frame, Parameters, predict
from opboost_ops.config.federation import Feature, Label
from opboost_ops.datasets import load
from opboost_ops.datasets.dataset import ID
from opboost_ops.domain import Domain, DomainMap, quantile_edges
from opboost_ops.evaluation.experiment import Progress, run, summary
from opboost_ops.mechanisms import Mechanism, noise
from opboost_ops.mechanisms.release import randomise
from opboost_ops.stages import raw_table
from opboost_ops.stages.assemble import category_codes, encode_label

DATASETS = ("adult", "pendigits", "powerplant", "casp")
EPSILONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)
#: The columns of the paper's Table 6.
TABLE_EPSILONS = (0.08, 0.32, 1.28)
ALPHAS = (0.4, 0.6, 0.8, 2.0, 5.0, 10.0)
THETAS = (2, 4)
DOMAIN = Domain(1, 10)
TREES, RATE, DEPTH = 80, 0.1, 3
#: Share of the rows that is held out where a dataset has no split of its own.
HELD_OUT = 0.2

_TASKS = {
    "adult": "binary",
    "pendigits": "multiclass",
    "powerplant": "regression",
    "casp": "regression",
}
_UUID = UUID("6f1d3a52-6f0e-4d0a-9f5e-0e7a3f1c9b12")
_NO_MECHANISM = ("raw", "alone")


def methods(
    epsilons: Sequence[float], alphas: Sequence[float] = ALPHAS
) -> Iterator[dict[str, Any]]:
    """All methods: no protection, the label holder alone, and every mechanism.

    Args:
        epsilons: For the mechanisms.
        alphas: Of Adj-map.
    """
    for name in _NO_MECHANISM:
        yield {"method": name, "epsilon": 0.0, "theta": 0, "alpha": 0.0}
    for epsilon in epsilons:
        for name in ("global_map", "piecewise", "bucket_response"):
            yield {"method": name, "epsilon": epsilon, "theta": 0, "alpha": 0.0}
        for theta in THETAS:
            yield {"method": "local_map", "epsilon": epsilon, "theta": theta, "alpha": 0.0}
            for alpha in alphas:
                yield {"method": "adj_map", "epsilon": epsilon, "theta": theta, "alpha": alpha}


def cells(
    datasets: Sequence[str],
    epsilons: Sequence[float],
    seeds: int,
    alphas: Sequence[float] = ALPHAS,
) -> list[dict[str, Any]]:
    """Settings of the experiment; those of one seed and table stand together.

    Args:
        datasets: Names.
        epsilons: For the mechanisms.
        seeds: How many.
        alphas: Of Adj-map.
    """
    return [
        {"dataset": dataset, "scale": scale, **method, "seed": seed}
        for dataset in datasets
        for seed in range(seeds)
        for scale in ("linear", "quantile")
        for method in methods(epsilons, alphas)
        if scale == "linear" or method["method"] not in _NO_MECHANISM
    ]


def experiment(
    datasets: Sequence[str],
    epsilons: Sequence[float],
    seeds: int,
    work: Path,
    progress: Progress | None = None,
    alphas: Sequence[float] = ALPHAS,
) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Args:
        datasets: Names.
        epsilons: For the mechanisms.
        seeds: How many.
        work: Folder where measurements are kept.
        progress: Called with how many are done, and of how many.
        alphas: Of Adj-map.

    Returns:
        ``rows``: for each setting the metric, its ratio to no protection on the same split, and
        their spread over seeds.
    """
    wanted = cells(datasets, epsilons, seeds, alphas)
    rows = run(wanted, measure, work / "accuracy.parquet", progress)
    raw = {
        (row["dataset"], row["seed"]): row["metric"]
        for row in rows.filter(pl.col("method") == "raw").iter_rows(named=True)
    }
    ratios = [
        ratio(_TASKS[row["dataset"]], row["metric"], raw[row["dataset"], row["seed"]])
        for row in rows.iter_rows(named=True)
    ]
    by = ("dataset", "scale", "method", "epsilon", "theta", "alpha")
    lines = summary(rows.with_columns(ratio=pl.Series(ratios)), by, ("ratio", "metric", "second"))
    return {"name": "accuracy", "trees": TREES, "rate": RATE, "depth": DEPTH, "rows": lines}


def name_of(line: Mapping[str, Any]) -> str:
    """A method in words."""
    name = {"raw": "no protection", "alone": "label holder alone"}.get(line["method"])
    if name is None:
        name = str(line["method"]).replace("_", "-").capitalize()
    more = [f"{key} {line[key]:g}" for key in ("theta", "alpha") if line[key]]
    return ", ".join([name, *more])


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train and test one setting.

    Args:
        cell: One of `cells`.

    Returns:
        ``metric``: accuracy, or mean squared error in regression; and ``auc`` or ``r2``.
    """
    table = _prepared(cell["dataset"], cell["scale"], cell["seed"])
    return table.evaluated(_prediction(table, cell))


def _prediction(table: "Prepared", cell: Mapping[str, Any]) -> np.ndarray:
    label = table.label[: table.train]
    if cell["method"] == "alone" and not table.own:
        rows = len(table.label) - table.train
        return metrics.constant_prediction(table.task, table.classes, label, rows)
    frame, test = table.frames(cell)
    parameters = Parameters(
        task=table.task,
        classes=table.classes,
        trees=TREES,
        learning_rate=RATE,
        depth=DEPTH,
        seed=cell["seed"],
    )
    model = trainer.train(frame, label, parameters)
    if frame.ranked:
        model = table.materialised(model, frame)
    return predict(model, test)


def ratio(task: str, protected: float, raw: float) -> float:
    """The paper's figure: 1 is as good as without protection.

    Args:
        task: Accuracy is divided by raw accuracy; in regression raw MSE by protected MSE.
        protected: The metric with protection.
        raw: The metric without.
    """
    return raw / protected if task == "regression" else protected / raw


class Prepared:
    """One dataset, split and laid on the domain.

    Attributes:
        task: What is learnt.
        classes: How many classes.
        train: How many rows are training rows; they come first.
        label: All labels, numbers or class indices.
        own: Party A's columns, by name.
    """

    def __init__(self, name: str, scale: str, seed: int) -> None:
        dataset = load(name)
        own = dataset.tables[dataset.label_holder]
        (holder,) = (p for p in dataset.tables if p != dataset.label_holder)
        self._secret = hashlib.sha256(f"{seed}/accuracy".encode()).digest()
        ids = own.get_column(ID).to_arrow()
        keys = noise.person_keys(self._secret, ids, "string")
        held = self._held_out(own, dataset.holdout, keys)
        order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
        self._keys, self.train = keys[order], int((~held).sum())
        label = Label.model_validate(dataset.label)
        rows = own[order]
        self.task = label.task
        self.label, classes = encode_label(rows.get_column(label.column), label, self.train)
        self.classes = len(classes)
        self.own, self._nominal = self._own_columns(rows, dataset.features[dataset.label_holder])
        other = dataset.tables[holder][order]
        self._raw: dict[str, np.ndarray] = {}
        self._clear: dict[str, np.ndarray] = {}
        self._digest: dict[str, bytes] = {}
        for column, declared in dataset.features[holder].items():
            feature = Feature.model_validate({"uuid": _UUID, **declared})
            values = raw_table.numbers(other.get_column(column), feature)
            mapping = feature.domain_map(DOMAIN)
            if scale == "quantile":
                # Read off the training rows, which leaves no guarantee: to compare with the paper.
                edges = quantile_edges(values[: self.train], DOMAIN.size)
                mapping = DomainMap(DOMAIN, mapping.bounds, "edges", edges)
            self._raw[column] = values
            self._clear[column] = mapping.encode(values)
            self._digest[column] = mapping.digest()
        self._released: dict[str, dict[str, np.ndarray]] = {}

    def evaluated(self, prediction: np.ndarray) -> dict[str, float]:
        """Accuracy or mean squared error of the test rows, and the second figure of the task."""
        found = metrics.evaluate(self.task, self.label[self.train :], prediction)
        first = "mse" if self.task == "regression" else "accuracy"
        return {"metric": found[first], "second": found[metrics.main_metric(self.task)]}

    def frames(self, cell: Mapping[str, Any]) -> tuple[Frame, np.ndarray]:
        """Training frame and test matrix of a method."""
        others: dict[str, np.ndarray] = {}
        ranked: tuple[str, ...] = ()
        if cell["method"] == "raw":
            others = self._raw
        elif cell["method"] != "alone":
            others = {n: v.astype(float) for n, v in self._clear.items()}
            ranked = tuple(others)
        names = (*self.own, *others)
        columns = {**self.own, **others}
        test = np.column_stack([columns[n][self.train :] for n in names])
        if ranked:
            self._values: dict[str, np.ndarray] = {}
            mechanism = mechanism_of(cell)
            for i, name in enumerate(ranked):
                released = randomise(
                    self._clear[name][: self.train],
                    self._keys[: self.train],
                    mechanism,
                    DOMAIN,
                    self._digest[name],
                    self._secret,
                    UUID(int=_UUID.int + i),
                )
                self._values[name], inverse = np.unique(released, return_inverse=True)
                columns[name] = inverse.reshape(-1) + 1.0
        matrix = np.column_stack([columns[n][: self.train] for n in names])
        frame = Frame(names, np.asfortranarray(matrix), self._nominal, ranked)
        return frame, np.asfortranarray(test)

    def materialised(self, model: str, frame: Frame) -> str:
        """The model on domain values, as label holder and feature holder make it together."""
        used = splits.used_splits(model, frame.ranked)
        values = {
            name: dict(zip(ranks, splits.split_values(ranks, self._values[name]), strict=True))
            for name, ranks in used.items()
        }
        bounds = dict.fromkeys(frame.ranked, (DOMAIN.lower, DOMAIN.upper))
        return splits.materialise(model, values, bounds)

    @staticmethod
    def _held_out(own: pl.DataFrame, holdout: Any, keys: np.ndarray) -> np.ndarray:
        if isinstance(holdout, Mapping):
            return np.asarray(own.get_column(holdout["column"]).to_numpy())
        order = np.argsort(keys[:, :8].copy().view(np.uint64).reshape(-1), kind="stable")
        held = np.zeros(len(keys), dtype=bool)
        held[order[: round(len(keys) * HELD_OUT)]] = True
        return held

    def _own_columns(
        self, rows: pl.DataFrame, features: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        own: dict[str, np.ndarray] = {}
        nominal: list[str] = []
        for name, declared in features.items():
            feature = Feature.model_validate({"uuid": _UUID, **declared})
            if feature.type == "nominal":
                text = rows.get_column(name).cast(pl.String)
                known = text[: self.train].drop_nulls().unique().sort().to_list()
                own[name] = category_codes(text, known)
                nominal.append(name)
            else:
                own[name] = raw_table.numbers(rows.get_column(name), feature)
        return own, tuple(nominal)


@lru_cache(maxsize=2)
def _prepared(name: str, scale: str, seed: int) -> Prepared:
    return Prepared(name, scale, seed)


_MECHANISM: TypeAdapter[Mechanism] = TypeAdapter(Mechanism)


def mechanism_of(cell: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a setting."""
    data: dict[str, Any] = {"name": cell["method"], "epsilon": cell["epsilon"]}
    if cell["theta"]:
        data["theta"] = cell["theta"]
    if cell["alpha"]:
        data["alpha"] = cell["alpha"]
    if cell["method"] == "bucket_response":
        # As many buckets as Local-map and Adj-map have partitions at theta 2.
        data["buckets"] = DOMAIN.size // THETAS[0]
    return _MECHANISM.validate_python(data)
