"""What the label holder can do about noise after a release: estimators beside plain training.

Each measurement trains all estimators on one split and one draw, so that differences are paired.
Losses are computed of the very channels. The clamped geometric mechanism stands at Global-map's
loss(1), not at its epsilon.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise import joint
from opboost_ops.boosting.frame import Parameters
from opboost_ops.datasets import load
from opboost_ops.datasets.dataset import Dataset
from opboost_ops.domain import Domain
from opboost_ops.lab.accuracy import DEPTH, HELD_OUT, QUANTILE_TABLES, RATE, TREES
from opboost_ops.lab.experiment import Progress, run
from opboost_ops.lab.harm import half_width, harm, holm
from opboost_ops.lab.two_parties import TwoParties
from opboost_ops.mechanisms import Geometric, GlobalMap, Mechanism
from opboost_ops.privacy.loss import end_losses

DATASETS = (
    "powerplant", "pendigits", "adult", "abalone", "casp", "credit_default", "give_me_some_credit",
)  # fmt: skip
#: Of these half of the columns are the label holder's.
HALVED = ("credit_default", "give_me_some_credit", "abalone")
EPSILONS = (0.08, 0.32, 0.64, 1.28, 5.12)
MECHANISMS = ("global_map", "geometric")
DOMAIN = Domain(1, 10)

#: Estimators on unrandomised rows, and plain training on randomised ones.
ESTIMATORS = ("redraw", "joint", "auto")
BASES = ("alone", "centralised", "plain", "plain_desensitised")
_BY = ("dataset", "mechanism", "epsilon")

#: What is tested for harm, and against what.
_TESTED = (("redraw", "plain"), ("joint", "plain"), ("auto", "plain"), ("auto", "alone"))


def experiment(
    work: Path,
    progress: Progress | None = None,
    *,
    datasets: Sequence[str] = DATASETS,
    epsilons: Sequence[float] = EPSILONS,
    mechanisms: Sequence[str] = MECHANISMS,
    seeds: int = 3,
) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Args:
        work: Folder where measurements are kept.
        progress: Called with how many are done, and of how many.
        datasets: Names; a number after a colon is that table's own count of seeds.
        epsilons: Global-map's; the clamped geometric mechanism has the same loss(1).
        mechanisms: Of `MECHANISMS`.
        seeds: How many splits and draws of noise.

    Returns:
        ``rows``: for each setting the figure of every estimator (AUC, accuracy or R2), its paired
        difference to plain training with half the width of its 95 % interval, seconds of
        denoising, and both losses; ``worst``: the setting of the largest deficit of ``auto``;
        ``harmed``: by what was compared, the settings in which `harm.holm` names a loss.
    """
    counts = {name: int(own or seeds) for name, _, own in (d.partition(":") for d in datasets)}
    cells = [
        {"dataset": dataset, "mechanism": mechanism, "epsilon": epsilon, "seed": seed}
        for seed in range(max(counts.values()))
        for dataset in counts
        if seed < counts[dataset]
        for mechanism in mechanisms
        for epsilon in epsilons
    ]
    rows = run(cells, measure, work / "denoise.parquet", progress)
    lines = [_line(dict(zip(_BY, names, strict=True)), group)
             for names, group in rows.group_by(_BY, maintain_order=True)]  # fmt: skip
    return {
        "name": "denoise", "trees": TREES, "rate": RATE, "depth": DEPTH, "seeds": seeds,
        "rows": lines, "hours": round(float(rows.get_column("seconds_all").sum()) / 3600, 2),
        "worst": min(lines, key=lambda line: line["auto_gain"]),
        "harmed": {f"{name} {base}": _harmed(rows, name, base) for name, base in _TESTED},
    }  # fmt: skip


def _line(names: dict[str, Any], group: pl.DataFrame) -> dict[str, Any]:
    line: dict[str, Any] = {**names, "seeds": group.height, "task": _task(names["dataset"])}
    figures = ("loss_1", "loss_whole", "own", "seconds_joint", *BASES, *ESTIMATORS)
    line |= {name: round(fmean(group.get_column(name)), 6) for name in figures}
    for name in ESTIMATORS:
        gains = (group.get_column(name) - group.get_column("plain")).to_list()
        line[f"{name}_gain"] = round(fmean(gains), 6)
        half = half_width(gains)
        line[f"{name}_half"] = None if half is None else round(half, 6)
    return line


def _harmed(rows: pl.DataFrame, name: str, base: str) -> list[dict[str, Any]]:
    """The settings in which an estimator is worse than another by more than chance."""
    settings, values = [], []
    for names, group in rows.group_by(_BY, maintain_order=True):
        settings.append(dict(zip(_BY, names, strict=True)))
        values.append(harm((group.get_column(name) - group.get_column(base)).to_list()))
    return [setting for setting, found in zip(settings, holm(values), strict=True) if found]


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train and test all estimators in one setting.

    Args:
        cell: Dataset, mechanism, epsilon and seed.

    Returns:
        Figures by estimator, losses, seconds of the joint redraw and of all, and how many columns
        are the label holder's own.
    """
    begun = time.perf_counter()
    table = _prepared(cell["dataset"], cell["seed"])
    mechanism = mechanism_of(cell["mechanism"], cell["epsilon"])
    label, parameters = table.label[: table.train], _parameters(table, cell["seed"])
    frame, test = table.frames(cell["mechanism"], mechanism)
    channel = mechanism.channel(DOMAIN)
    found: dict[str, float] = {"own": float(len(table.own)), **_ends(cell["dataset"], cell["seed"])}
    found["loss_1"], found["loss_whole"] = end_losses(channel)
    plain = table.materialised(trainer.train(frame, label, parameters), frame)
    found["plain"] = _figure(table, trainer.predict(plain, test))
    noisy = table.desensitised(mechanism)
    found["plain_desensitised"] = _figure(table, trainer.predict(plain, noisy))
    seconds = time.perf_counter()
    seed = hashlib.sha256(f"joint {cell['seed']}".encode()).digest()
    channels = dict.fromkeys(frame.ranked, channel)
    drawn = joint.train(frame, label, parameters, channels, seed)
    found["seconds_joint"] = time.perf_counter() - seconds
    found["joint"] = _figure(table, trainer.predict(table.materialised(drawn, frame), test))
    frame, _ = table.frames(cell["mechanism"], mechanism, redrawn=True)
    each = table.materialised(trainer.train(frame, label, parameters), frame)
    found["redraw"] = _figure(table, trainer.predict(each, test))
    # What `Federation.denoising` takes for clear rows and LightGBM.
    found["auto"] = found["plain" if table.own else "joint"]
    found["seconds_all"] = time.perf_counter() - begun
    return found


def mechanism_of(name: str, epsilon: float) -> Mechanism:
    """Global-map at an epsilon, or the clamped geometric mechanism at its loss(1).

    Args:
        name: Of `MECHANISMS`.
        epsilon: Global-map's.
    """
    other = GlobalMap(epsilon=epsilon)
    if name == "global_map":
        return other
    return Geometric(epsilon=float(f"{end_losses(other.channel(DOMAIN))[0]:.6g}"))


def halved(dataset: Dataset) -> Dataset:
    """A dataset of two parties, each with half of the columns: the label holder takes the first.

    Args:
        dataset: Of two parties whose tables have the same rows in the same order.
    """
    owner = dataset.label_holder
    (holder,) = (party for party in dataset.tables if party != owner)
    mine, others = dict(dataset.features[owner]), dict(dataset.features[holder])
    names = list(others)
    moved = names[: max(0, (len(mine) + len(others)) // 2 - len(mine))]
    mine |= {name: others.pop(name) for name in moved}
    tables = dict(dataset.tables)
    tables[owner] = tables[owner].hstack(tables[holder].select(moved))
    tables[holder] = tables[holder].drop(moved)
    features = {**dataset.features, owner: mine, holder: others}
    return replace(dataset, tables=tables, features=features)


def _figure(table: TwoParties, prediction: np.ndarray) -> float:
    """Accuracy of many classes, otherwise AUC or R2."""
    return table.evaluated(prediction)["metric" if table.task == "multiclass" else "second"]


@cache
def _task(name: str) -> str:
    return load(name).task


@lru_cache(maxsize=1)
def _prepared(name: str, seed: int) -> TwoParties:
    scale = "quantile" if name in QUANTILE_TABLES else "linear"
    dataset = load(name)
    return TwoParties(halved(dataset) if name in HALVED else dataset, DOMAIN, scale, HELD_OUT, seed)


@lru_cache(maxsize=1)
def _ends(name: str, seed: int) -> dict[str, float]:
    """What no channel changes: the label holder alone, and training on all columns as they are."""
    table = _prepared(name, seed)
    label, parameters = table.label[: table.train], _parameters(table, seed)
    found = {}
    for key, method in (("alone", "alone"), ("centralised", "raw")):
        if method == "alone" and not table.own:
            # Nothing to learn from: the mean in regression, the commonest class of several.
            found[key] = {"regression": 0.0, "binary": 0.5}.get(table.task, _commonest(label))
            continue
        frame, test = table.frames(method)
        found[key] = _figure(table, trainer.predict(trainer.train(frame, label, parameters), test))
    return found


def _commonest(label: np.ndarray) -> float:
    _, counts = np.unique(label, return_counts=True)
    return float(counts.max() / len(label))


def _parameters(table: TwoParties, seed: int) -> Parameters:
    return Parameters(table.task, table.classes, TREES, RATE, DEPTH, seed)
