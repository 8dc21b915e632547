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

from benchmarks.papers import pictures
from benchmarks.papers.accuracy import QUANTILE_TABLES
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.harm import half_width, harm, holm
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.two_parties import DEPTH, DOMAIN, RATE, TREES, TwoParties
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.tables import Dataset
from opboost_ops.learning.denoise import joint
from opboost_ops.mechanisms import Geometric, GlobalMap, Mechanism
from opboost_ops.privacy.loss import end_losses

DATASETS = (
    "powerplant", "pendigits", "adult", "abalone", "casp", "credit_default", "give_me_some_credit",
)  # fmt: skip
#: Of these half of the columns are the label holder's.
HALVED = ("credit_default", "give_me_some_credit", "abalone")
EPSILONS = (0.08, 0.32, 0.64, 1.28, 5.12)
MECHANISMS = ("global_map", "geometric")

#: Estimators on unrandomised rows, and plain training on randomised ones.
ESTIMATORS = ("joint", "auto")
BASES = ("alone", "centralised", "plain", "plain_desensitised")
_BY = ("dataset", "mechanism", "epsilon")

#: What is tested for harm, and against what.
_TESTED = (("joint", "plain"), ("auto", "plain"), ("auto", "alone"))


def run(options: Options) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Returns:
        ``rows``: for each setting the figure of every estimator (AUC, accuracy or R2), its paired
        difference to plain training with half the width of its 95 % interval, seconds of
        denoising, and both losses; ``worst``: the setting of the largest deficit of ``auto``;
        ``harmed``: by what was compared, the settings in which `harm.holm` names a loss.
    """
    # A number after a colon is that table's own count of seeds.
    named = [name.partition(":") for name in options["dataset"]]
    counts = {name: int(own or options.seeds) for name, _, own in named}
    cells = [
        {"dataset": dataset, "mechanism": mechanism, "epsilon": epsilon, "seed": seed}
        for seed in range(max(counts.values()))
        for dataset in counts
        if seed < counts[dataset]
        for mechanism in MECHANISMS
        for epsilon in options["epsilon"]
    ]
    rows = measure_all(cells, measure, "denoise", options)
    lines = [_line(dict(zip(_BY, names, strict=True)), group)
             for names, group in rows.group_by(_BY, maintain_order=True)]  # fmt: skip
    return {
        "trees": TREES, "rate": RATE, "depth": DEPTH, "seeds": options.seeds,
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
        Figures by estimator, losses, seconds of denoising and of all, and how many columns
        are the label holder's own.
    """
    begun = time.perf_counter()
    table = _prepared(cell["dataset"], cell["seed"])
    mechanism = mechanism_of(cell["mechanism"], cell["epsilon"])
    parameters = table.parameters(cell["seed"])
    frame, test = table.frames(cell["mechanism"], mechanism)
    channel = mechanism.channel(DOMAIN)
    found: dict[str, float] = {"own": float(len(table.own)), **_ends(cell["dataset"], cell["seed"])}
    found["loss_1"], found["loss_whole"] = end_losses(channel)
    plain = table.trained(frame, parameters)
    found["plain"] = table.figure(plain, test)
    found["plain_desensitised"] = table.figure(plain, table.desensitised(mechanism))
    seconds = time.perf_counter()
    seed = hashlib.sha256(f"joint {cell['seed']}".encode()).digest()
    channels = dict.fromkeys(frame.ranked, channel)
    drawn = joint.train(frame, table.label[: table.train], parameters, channels, seed)
    found["seconds_joint"] = time.perf_counter() - seconds
    found["joint"] = table.figure(table.materialised(drawn, frame), test)
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


def divided(name: str) -> Dataset:
    """A named table of two parties, of which both have features."""
    return halved(load(name)) if name in HALVED else load(name)


@cache
def _task(name: str) -> str:
    return load(name).task


@lru_cache(maxsize=1)
def _prepared(name: str, seed: int) -> TwoParties:
    scale = "quantile" if name in QUANTILE_TABLES else "linear"
    return TwoParties(divided(name), scale, seed)


@lru_cache(maxsize=1)
def _ends(name: str, seed: int) -> dict[str, float]:
    """What no channel changes: the label holder alone, and training on all columns as they are."""
    table = _prepared(name, seed)
    found = {}
    for key, method in (("alone", "alone"), ("centralised", "raw")):
        if method == "alone" and not table.own:
            # Nothing to learn from: the mean in regression, the commonest class of several.
            _, counts = np.unique(table.label[: table.train], return_counts=True)
            commonest = float(counts.max() / table.train)
            found[key] = {"regression": 0.0, "binary": 0.5}.get(table.task, commonest)
            continue
        frame, test = table.frames(method)
        found[key] = table.figure(table.trained(frame, table.parameters(seed)), test)
    return found


_NAMES = {"global_map": "Global-map", "geometric": "clamped geometric"}
#: Epsilons that the page shows; the pictures show all.
_SHOWN = 1.28
_LOSSES = {"loss_1": "loss(1)", "loss_whole": "loss(R - L)"}
_METRICS = {"regression": "R2", "binary": "AUC", "multiclass": "accuracy"}


def worst(found: Mapping[str, Any]) -> str:
    """Where `auto` did worst, in a sentence: what a reader should see before any gain.

    Args:
        found: What `denoise.experiment` gave.
    """
    least = found["worst"]
    below = min(found["rows"], key=lambda row: row["auto"] - row["alone"])
    return (
        f"Of {len(found['rows'])} settings, `denoise: auto` was worst against plain training on "
        f"{_at(least)}: {least['auto']:.4f}, plain {least['plain']:.4f}. Against the label holder "
        f"alone it was worst on {_at(below)}: {below['auto']:.4f}, alone {below['alone']:.4f}. "
        "`auto` is `joint` where the label holder has no columns of its own, else plain training."
    )


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section."""
    rows = found["rows"]
    tables = list(dict.fromkeys(row["dataset"] for row in rows))
    half = [name for name in tables if name in HALVED]
    split = f" Of {', '.join(half)} each party has half of the columns." if half else ""
    losses = [row for row in rows if row["joint_gain"] < 0]
    parts = [
        "## Denoising, and a channel of equal loss(1)",
        worst(found),
        f"Full tables on [1, 10], {found['trees']} trees of depth {found['depth']}, learning rate "
        f"{found['rate']:g}, LightGBM.{split} R2 in regression, AUC for two classes, accuracy for "
        "more, on clear rows; *desensitised* is plain training on randomised rows. Where the label "
        "holder has own columns, `joint` is the even mixture with plain training.",
        f"`joint` is below plain training in {len(losses)} of {len(rows)} settings. One-sided "
        "paired t tests over seeds, with Holm's correction at 5 %, find a loss "
        f"{_told(found['harmed'], len(rows))}.",
        _pictured(rows, tables, folder),
    ]
    shown = min({row["epsilon"] for row in rows}, key=lambda epsilon: abs(epsilon - _SHOWN))
    heads = ("table (own columns)", "alone", "plain", "joint", "desensitised",
             "centralised")  # fmt: skip
    lines = [
        (
            f"{row['dataset']} ({int(row['own'])})",
            *(
                f"{row[key]:.4f}"
                for key in ("alone", "plain", "joint", "plain_desensitised", "centralised")
            ),
        )
        for row in rows
        if row["epsilon"] == shown and row["mechanism"] == "global_map"
    ]
    words = f"Global-map at epsilon {shown:g}:"
    return "\n\n".join([*parts, words, table(heads, lines)]) + "\n"


def _told(harmed: Mapping[str, Any], settings: int) -> str:
    """In how many settings each estimator is worse than what it is compared with."""
    words = {"plain": "plain training", "alone": "the label holder alone"}
    parts = []
    for pair, where in harmed.items():
        name, base = pair.split(" ")
        parts.append(f"of `{name}` against {words[base]} in {len(where)} of {settings}")
    return "; ".join(parts)


def _pictured(rows: Sequence[Mapping[str, Any]], tables: Sequence[str], folder: Path) -> str:
    """Metric by mode over both losses, a row a table."""
    figure, plots = pictures.canvas(columns=2, rows=len(tables), width=4.2)
    for line, name in enumerate(tables):
        here = [row for row in rows if row["dataset"] == name]
        for plot, (loss, words) in zip(plots[2 * line :], _LOSSES.items(), strict=False):
            curves = {
                f"{mode}, {channel}": [
                    (row[loss], row[key]) for row in here if row["mechanism"] == mechanism
                ]
                for mode, key in (("clear rows", "auto"), ("desensitised", "plain_desensitised"))
                for mechanism, channel in _NAMES.items()
            }
            pictures.paths(plot, curves)
            for key, style in (("alone", ":"), ("centralised", "--")):
                pictures.level(plot, here[0][key], key, style)
            pictures.name_axes(plot, name, words, _METRICS[here[0]["task"]])
    pictures.legend(plots[0])
    pictures.save(figure, folder / "evaluation-denoise.svg")
    return (
        "Both losses below: clear rows by `auto`, desensitised rows by plain training.\n\n"
        "![Metric by mode over both losses, a row a table]"
        "(figures/evaluation-denoise.svg)"
    )


def _at(row: Mapping[str, Any]) -> str:
    return f"{row['dataset']} at {row['epsilon']:g} ({_NAMES[row['mechanism']]})"


EXPERIMENTS = (
    Experiment(
        "denoise",
        "Denoising beside plain training, alone and centralised, by table, mechanism and epsilon.",
        run,
        section,
        seeds=3,
        options={"dataset": DATASETS, "epsilon": EPSILONS},
        quick={"seeds": 1, "dataset": DATASETS[:1], "epsilon": (0.32,)},
    ),
)
