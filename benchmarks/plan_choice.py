"""What `opboost plan --write` chooses, beside the best of a grid, at one sum of loss(1).

Party B's columns on [1, 10], clamped geometric mechanism, plain LightGBM, randomised test rows. The
grid: all columns on linear or log1p cells or on edges of the public sample, and an even division
over the 1, 2, 4, 8 best or all columns, ranked by a model of unprotected columns, which nobody has.
`plan` divides by a public sample of 1,000 training rows. The gain is over all columns evenly on
linear cells. R2, AUC or accuracy, means over seeds.
"""

import argparse
import json
import tempfile
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import lightgbm
import numpy as np

from benchmarks.papers.denoise import divided
from benchmarks.papers.two_parties import DOMAIN, Scale, TwoParties
from benchmarks.private_edges import DATASETS, SAMPLE, formula, sampled
from opboost_ops import api
from opboost_ops.config.feature import Feature
from opboost_ops.config.loading import load_federation
from opboost_ops.domain import DomainMap
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.mechanisms import Geometric, Mechanism
from opboost_ops.privacy.planner import Caps

COUNTS = (1, 2, 4, 8)
LINEAR = "linear, all"


def main() -> None:
    """Run the benchmark and print its figures, a line for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default=",".join(DATASETS))
    parser.add_argument("--total", type=float, default=2.0, help="sum of loss(1)")
    parser.add_argument("--rows", type=int, default=20_000, help="most rows of a table")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in options.dataset.split(","):
        found = [measured(name, options.total, options.rows, seed) for seed in range(options.seeds)]
        print(json.dumps(summary(name, found)), flush=True)


def summary(name: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Means of the first setting, the best of the grid and the chosen one."""
    means = {setting: fmean(of[setting] for of in found) for setting in found[0]}
    plan, before = means.pop("plan"), means[LINEAR]
    best = max(means, key=lambda setting: means[setting])
    gain = means[best] - before
    return {
        "dataset": name, "seeds": len(found), LINEAR: round(before, 4), "best": best,
        "best_metric": round(means[best], 4), "plan": round(plan, 4),
        "share_of_gain": round((plan - before) / gain, 3) if gain > 0 else None,
    }  # fmt: skip


def measured(name: str, total: float, rows: int, seed: int) -> dict[str, float]:
    """The metric by setting."""
    dataset = some_rows(divided(name), rows, seed)
    (holder,) = (party for party in dataset.tables if party != dataset.label_holder)
    scales: dict[str, Scale] = {
        "linear": partial(formula, scale="linear"),
        "log1p": partial(formula, scale="log1p"),
        "edges of the sample": partial(sampled, seed=seed),
    }
    order = _ranked(dataset, seed)
    found = {}
    for words, scale in scales.items():
        for count in (*(k for k in COUNTS if k < len(order)), len(order)):
            released: dict[str, Mechanism] = dict.fromkeys(
                order[:count], Geometric(epsilon=float(f"{total / count:.6g}"))
            )
            kind = f"{words}, {'all' if count == len(order) else count}"
            table = TwoParties(only(dataset, holder, released), scale, seed)
            found[kind], _ = table.figures(released, seed)
    table = TwoParties(dataset, "linear", seed)
    chosen, cells = proposed(dataset, table.order[: table.train], Caps(total), seed)
    table = TwoParties(only(dataset, holder, chosen), cells, seed)
    found["plan"], _ = table.figures(chosen, seed)
    return found


def some_rows(dataset: Dataset, rows: int, seed: int) -> Dataset:
    """So many rows of all tables, which have the same people in the same order."""
    count = next(iter(dataset.tables.values())).height
    if count <= rows:
        return dataset
    some = np.sort(np.random.default_rng(seed).choice(count, rows, replace=False))
    tables = {party: table[some] for party, table in dataset.tables.items()}
    return replace(dataset, tables=tables)


def only(dataset: Dataset, holder: str, names: Collection[str]) -> Dataset:
    """The dataset with some of a party's features."""
    features = {n: f for n, f in dataset.features[holder].items() if n in names}
    return replace(dataset, features={**dataset.features, holder: features})


def _ranked(dataset: Dataset, seed: int) -> list[str]:
    """Party B's columns by what splits on them gain without protection, the best first."""
    table = TwoParties(dataset, "linear", seed)
    frame, _ = table.frames("raw")
    model = table.trained(frame, table.parameters(seed))
    gains = lightgbm.Booster(model_str=model).feature_importance("gain")
    theirs = {n: g for n, g in zip(frame.names, gains, strict=True) if n in table.maps}
    return sorted(theirs, key=lambda n: -theirs[n])


def proposed(
    dataset: Dataset, rows: np.ndarray, total: Caps, seed: int
) -> tuple[dict[str, Mechanism], Scale]:
    """Mechanisms and cells that the command writes into the federation file.

    Args:
        dataset: Of a label holder and a feature holder.
        rows: Places of those of which the public sample is drawn.
        total: Of the sum over columns.
        seed: Of the sample.
    """
    (holder,) = (party for party in dataset.tables if party != dataset.label_holder)
    own = dataset.tables[dataset.label_holder]
    joined = own.hstack(dataset.tables[holder].drop(ID))
    some = np.random.default_rng(seed).choice(rows, min(SAMPLE, len(rows)), replace=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = write_workspace(dataset, folder / "federation", seed=seed)
        joined[some].write_parquet(folder / "sample.parquet")
        api.divide(
            file,
            holder,
            sample=folder / "sample.parquet",
            total_loss_1=total.step,
            total_loss_whole=total.whole,
            write=True,
        )
        features = load_federation(file).parties[holder].features
    mechanisms = {n: feature.mechanism for n, feature in features.items() if feature.mechanism}

    def scale(name: str, _: Feature, __: np.ndarray) -> DomainMap:
        return features[name].domain_map(DOMAIN)

    return mechanisms, scale


if __name__ == "__main__":
    main()
