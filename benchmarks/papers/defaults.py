"""What `opboost init` and `plan --write` reach of the gain that eight settings show to be there.

Each measurement trains on one split and one draw of the noise in this process, with the package's
own channels, cells, private edges and denoising. The label holder has some columns of each table
and a feature holder the others, so that the label holder alone is clearly below pooling.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

import lightgbm
import numpy as np
import polars as pl

from benchmarks.papers.defaults_tables import TABLES, divided_table
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.settings import on_ten, under
from benchmarks.papers.two_parties import DOMAIN, Scale, TwoParties
from benchmarks.plan_choice import only, proposed
from benchmarks.private_edges import SAMPLE, formula, planned, private
from opboost_ops.config.agreement import (
    MAX_STEP_LOSS,
    MAX_WHOLE_LOSS,
    STANDARD,
    STANDARD_EDGES,
    inline_tables,
)
from opboost_ops.config.feature import Edges
from opboost_ops.config.loading import load_federation
from opboost_ops.domain import Domain
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.extras.lab.advice import best_by_gain, with_best_scales
from opboost_ops.learning.denoise import joint
from opboost_ops.mechanisms import BucketResponse, Designed, GeneralisedResponse, Mechanism
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.private_quantiles import MOST_EPSILON
from opboost_ops.privacy import planner
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.planner import Caps

HELD_OUT = 0.25

#: What private edges cost in the settings that have them.
EDGES = 0.02

Mechanisms = Mapping[str, Mechanism]


@dataclass(frozen=True)
class Setting:
    """What a federation may choose.

    Attributes:
        cells: Where columns are laid: ``linear``, ``planned``, ``private``, ``exact`` (private
            edges with hardly any noise, which are not charged), or as one of `JUDGED` does.
        mechanisms: By column, of a table whose columns are laid.
        joint: Whether the label holder denoises by `learning.denoise.joint`.
        values: How many cells a column has; a multiple of ten.
    """

    cells: str
    mechanisms: Callable[[TwoParties], Mechanisms]
    joint: bool = False
    values: int = 10


def _every(both: TwoParties, make: Callable[[], Mechanism]) -> Mechanisms:
    return dict.fromkeys(both.integers, make())


def _ranked(both: TwoParties, caps: Caps) -> Mechanisms:
    """The mechanism of each column that keeps most order: of the sample, as `plan` ranks them."""
    return {
        name: planner.rank(_candidates(caps), DOMAIN, np.bincount(v - 1, minlength=DOMAIN.size))[0][
            1
        ].mechanism
        for name, v in both.protected.items()
    }


@cache
def _candidates(caps: Caps) -> list[planner.Candidate]:
    return planner.candidates(DOMAIN, caps)


@cache
def standard() -> Mechanism:
    """The channel that `init` writes."""
    feature = {"mechanism": dict(STANDARD)}
    inline_tables({"parties": {"b": {"features": {"x": feature}}}}, Path())
    return Designed.model_validate(feature["mechanism"])


_BOTH, _FAR = Caps(MAX_STEP_LOSS, MAX_WHOLE_LOSS), Caps(None, MAX_WHOLE_LOSS)

#: The best of these is the gain that can be had.
SETTINGS: Mapping[str, Setting] = {
    "ten linear cells": Setting("linear", partial(_every, make=on_ten)),
    "plan, both caps": Setting("planned", partial(_ranked, caps=_BOTH)),
    "plan, whole range": Setting("planned", partial(_ranked, caps=_FAR)),
    "private edges": Setting("private", partial(_every, make=partial(on_ten, EDGES))),
    "GRR, planned edges": Setting(
        "planned", partial(_every, make=lambda: GeneralisedResponse(epsilon=MAX_WHOLE_LOSS))
    ),
    "five buckets": Setting(
        "linear", partial(_every, make=lambda: BucketResponse(epsilon=MAX_WHOLE_LOSS, buckets=5))
    ),
    "ten linear cells, joint": Setting("linear", partial(_every, make=on_ten), joint=True),
    "private edges, joint": Setting(
        "private", partial(_every, make=partial(on_ten, EDGES)), joint=True
    ),
}
_STANDARD = Setting("init", partial(_every, make=standard))
#: What is judged by them.
JUDGED = {
    "init": _STANDARD,
    "plan --write": Setting("plan --write", partial(_every, make=standard)),
}
#: What else was tried.
TRIED = {
    "init, joint": Setting("init", partial(_every, make=standard), joint=True),
    "exact edges at no cost": Setting("exact", partial(_every, make=on_ten)),
    "twenty cells, half the loss of a step": Setting(
        "exact",
        partial(_every, make=partial(under, 20, Caps(MAX_STEP_LOSS / 2, MAX_WHOLE_LOSS))),
        values=20,
    ),
    "forty cells, the same loss of a step": Setting(
        "exact", partial(_every, make=partial(under, 40, _BOTH)), values=40
    ),
}
#: Loss of the edges, by kind of cells.
_SPENT = {"private": EDGES, **dict.fromkeys(JUDGED, STANDARD_EDGES)}
ENDS = {"alone": "alone", "pooled": "raw"}
MODES = ("desensitised", "routed")
COSTS = ("loss_1", "loss_whole", "guess", "mean_guess")


def run(options: Options) -> dict[str, Any]:
    """The eight settings, and what is judged by them; see `summary`."""
    return summary(options, (*ENDS, *SETTINGS, *JUDGED))


def run_tried(options: Options) -> dict[str, Any]:
    """What else was tried, and the settings without denoising; see `summary`."""
    return summary(options, ("alone", *PLAIN, *JUDGED, *TRIED, *FEWER))


def summary(options: Options, settings: Sequence[str]) -> dict[str, Any]:
    """Measure settings, and their shares of the gain.

    Args:
        options: The experiment's.
        settings: By name, some of `SETTINGS` and ``alone`` among them.

    Returns:
        ``rows``: by table and setting the medians over draws of metric and gain share in both
        modes of scoring, and the largest losses and guess rates of a column. ``shares``: by
        setting and mode the median and the least gain share over tables and draws.
    """
    cells = [
        {"table": name, "setting": setting, "draw": draw, "rows": options["rows"]}
        for name in options["tables"]
        for draw in range(options["draws"])
        for setting in settings
    ]
    found = with_shares(measure_all(cells, measure, "defaults", options))
    rows = []
    for (name, setting), group in found.group_by(["table", "setting"], maintain_order=True):
        figures = {
            key: round(median(group.get_column(key)), 4)
            for key in (*MODES, *(f"{mode}_share" for mode in MODES))
        }
        worst = {key: round(max(group.get_column(key)), 4) for key in COSTS}
        rows.append({"table": name, "setting": setting, **figures, **worst})
    shares = []
    for (setting,), group in found.group_by(["setting"], maintain_order=True):
        line: dict[str, Any] = {"setting": setting}
        for mode in MODES:
            values = group.get_column(f"{mode}_share").to_list()
            least = min(values)
            line[f"{mode}_median"] = round(median(values), 3)
            line[f"{mode}_worst"] = round(least, 3)
            line[f"{mode}_worst_of"] = group.get_column("table")[values.index(least)]
        shares.append(line)
    return {
        "table_rows": options["rows"], "draws": options["draws"], "rows": rows, "shares": shares,
    }  # fmt: skip


def with_shares(measured: pl.DataFrame) -> pl.DataFrame:
    """Measurements with their share of the best setting's gain over the label holder alone.

    Args:
        measured: A row for each table, setting and draw.
    """
    by = ["table", "draw"]
    settings = measured.filter(pl.col("setting").is_in(list(SETTINGS)))
    alone = measured.filter(pl.col("setting") == "alone")
    for mode in MODES:
        best = settings.group_by(by).agg(pl.col(mode).max().alias("best"))
        base = alone.select(*by, pl.col(mode).alias("base"))
        share = (pl.col(mode) - pl.col("base")) / (pl.col("best") - pl.col("base"))
        measured = measured.join(best, on=by, maintain_order="left")
        measured = measured.join(base, on=by, maintain_order="left")
        measured = measured.with_columns(share.alias(f"{mode}_share")).drop("best", "base")
    return measured


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train in one setting, on one split and draw.

    Args:
        cell: Table, setting, draw and rows.

    Returns:
        The metric by mode of scoring; the largest losses and guess rate of a column.
    """
    name, draw = cell["setting"], cell["draw"]
    if name in ENDS:
        both = laid(cell["table"], cell["rows"], draw, "linear")
        frame, test = both.frames(ENDS[name])
        figure = both.figure(both.trained(frame, both.parameters(draw)), test)
        return {**dict.fromkeys(MODES, figure), **dict.fromkeys(COSTS, 0.0)}
    if name in FEWER:
        dataset = divided_table(cell["table"], cell["rows"])
        before = laid(cell["table"], cell["rows"], draw, "init")
        setting, columns = _STANDARD, len(before.integers)
        spent = 0.0 if name.startswith("plan") else STANDARD_EDGES
        both, mechanisms = FEWER[name](dataset, before, draw)
    else:
        setting = {**SETTINGS, **JUDGED, **TRIED}[name]
        both = laid(cell["table"], cell["rows"], draw, setting.cells, setting.values)
        mechanisms, columns = setting.mechanisms(both), len(both.integers)
        spent = _SPENT.get(setting.cells, 0.0)
    domain = Domain(1, setting.values)
    frame, clear = both.frames("released", mechanisms)
    if setting.joint:
        channels = {column: of.channel(domain) for column, of in mechanisms.items()}
        seed = hashlib.sha256(f"joint {draw}".encode()).digest()
        label = both.label[: both.train]
        text = joint.train(frame, label, both.parameters(draw), channels, seed)
        model = both.materialised(text, frame)
    else:
        model = both.trained(frame, both.parameters(draw))
    figures = (both.figure(model, both.desensitised(mechanisms)), both.figure(model, clear))
    costs = costs_of(mechanisms, domain, spent, columns)
    return {**dict(zip(MODES, figures, strict=True)), **costs}


def costs_of(
    mechanisms: Mechanisms, domain: Domain, edges: float, columns: int
) -> dict[str, float]:
    """The largest losses of a column, edges included, and how often its tenth is guessed right.

    Args:
        mechanisms: By released column.
        domain: Where they work.
        edges: Loss of the edges.
        columns: How many there are; of those that are not released one tenth is guessed.
    """
    channels = {mechanism: mechanism.channel(domain) for mechanism in {*mechanisms.values()}}
    ends = [end_losses(channel) for channel in channels.values()]
    rates = {mechanism: tenths(channel) for mechanism, channel in channels.items()}
    step, whole = (max(pair[i] for pair in ends) + edges for i in (0, 1))
    known = sum(rates[mechanism] for mechanism in mechanisms.values())
    mean = (known + (columns - len(mechanisms)) / 10) / columns
    return dict(zip(COSTS, (step, whole, max(rates.values()), mean), strict=True))


def tenths(channel: Channel) -> float:
    """How often the best attack guesses in which tenth of all values one lies.

    Args:
        channel: Of a multiple of ten values, all of them as likely.
    """
    law = channel.probabilities()
    return float(law.reshape(10, -1, law.shape[1]).mean(axis=1).max(axis=0).sum()) / 10


def _half(dataset: Dataset, before: TwoParties, draw: int) -> tuple[TwoParties, Mechanisms]:
    """Half of the columns at twice the loss: those by which the trees of `init` gain most."""
    frame, _ = before.frames("released", _every(before, standard))
    model = lightgbm.Booster(model_str=before.trained(frame, before.parameters(draw)))
    gains = dict(zip(frame.names, model.feature_importance("gain"), strict=True))
    names = sorted(before.integers, key=lambda name: -gains[name])
    kept = names[: math.ceil(len(names) / 2)]
    channel = on_ten(STANDARD_EDGES, len(names) / len(kept))
    both = _of_some(dataset, kept, lambda name, _feature, _values: before.maps[name], draw)
    return both, dict.fromkeys(kept, channel)


def _total(dataset: Dataset, before: TwoParties, draw: int) -> tuple[TwoParties, Mechanisms]:
    """What `plan --write` makes of a public sample and the sum of what `init` writes."""
    columns = len(before.integers)
    total = Caps(columns * MAX_STEP_LOSS, columns * MAX_WHOLE_LOSS)
    mechanisms, scale = proposed(dataset, before.order[: before.train], total, draw)
    return _of_some(dataset, list(mechanisms), scale, draw), mechanisms


def _of_some(dataset: Dataset, names: Sequence[str], scale: Scale, draw: int) -> TwoParties:
    (holder,) = (party for party in dataset.tables if party != dataset.label_holder)
    return TwoParties(only(dataset, holder, names), scale, draw, held_out=HELD_OUT)


#: Settings that do not denoise.
PLAIN = tuple(name for name, setting in SETTINGS.items() if not setting.joint)

#: Fewer columns, each at a larger loss, so that the sum over all columns stays.
FEWER: Mapping[str, Callable[[Dataset, TwoParties, int], tuple[TwoParties, Mechanisms]]] = {
    "init, half of the columns": _half,
    "plan --write, a total": _total,
}


@lru_cache(maxsize=4)
def laid(name: str, rows: int, draw: int, cells: str, values: int = 10) -> TwoParties:
    """A table between two parties, the feature holder's columns on cells.

    Args:
        name: Of the table.
        rows: Most rows.
        draw: Of split and noise.
        cells: Of which kind.
        values: How many.
    """
    domain = Domain(1, values)
    scales: dict[str, str | Scale] = {
        "planned": partial(planned, seed=draw),
        "private": partial(private, epsilon=EDGES, seed=draw),
        "exact": partial(private, epsilon=MOST_EPSILON, seed=draw, domain=domain),
    }
    if cells in JUDGED:
        dataset = divided_table(name, rows)
        edges = partial(private, epsilon=STANDARD_EDGES, seed=draw)
        both = TwoParties(dataset, edges, draw, held_out=HELD_OUT)
        if cells == "init":
            return both
        return TwoParties(dataset, replanned(dataset, both, draw), draw, held_out=HELD_OUT)
    scale = scales.get(cells, partial(formula, scale="linear"))
    return TwoParties(divided_table(name, rows), scale, draw, domain, HELD_OUT)


def replanned(dataset: Dataset, both: TwoParties, draw: int) -> Scale:
    """The cells that `plan --write` leaves or writes by a public sample of training rows.

    Under the losses and guess rates of the standard channel no other mechanism says more, so that
    channel alone is a candidate.

    Args:
        dataset: The table.
        both: Laid as `init` does.
        draw: Of the sample.
    """
    (holder,) = (party for party in dataset.tables if party != dataset.label_holder)
    some = np.random.default_rng(draw).choice(both.order[: both.train], SAMPLE, replace=False)
    joined = dataset.tables[dataset.label_holder].hstack(dataset.tables[holder].drop(ID))
    with TemporaryDirectory() as folder:
        sample = Path(folder) / "sample.parquet"
        joined[some].write_parquet(sample)
        file = write_workspace(dataset, Path(folder) / "federation", seed=draw)
        declared = load_federation(file)
        laid_out = {}
        for name, feature in declared.parties[holder].features.items():
            change: dict[str, Any] = {"mechanism": standard()}
            if edges := both.maps[name].edges:
                change["scale"] = Edges(edges=edges, epsilon=STANDARD_EDGES)
            laid_out[name] = feature.model_copy(update=change)
        now = declared.parties[holder].model_copy(update={"features": laid_out})
        declared = declared.model_copy(update={"parties": {**declared.parties, holder: now}})
        rescaled, _ = with_best_scales(declared, holder, sample)
        channels = {name: [standard()] for name in laid_out}
        chosen = best_by_gain(declared, rescaled, holder, sample, channels)
    features = {
        name: (rescaled if name in chosen and chosen[name][1] else declared)
        .parties[holder]
        .features[name]
        for name in laid_out
    }
    return lambda name, _feature, _values: features[name].domain_map(DOMAIN)


_SHORT = {"desensitised": "new rows randomised", "routed": "routed"}


def section(found: Mapping[str, Any], _: Path) -> str:
    """The section."""
    heads = ("setting", "guessed right", *(f"{_SHORT[mode]}: median, worst" for mode in MODES))
    guesses = {row["setting"]: row["guess"] for row in found["rows"]}
    lines = [
        (
            row["setting"],
            f"{guesses[row['setting']]:.0%}",
            *(f"{row[f'{mode}_median']:z.0%}, {row[f'{mode}_worst']:z.0%}" for mode in MODES),
        )
        for row in found["shares"]
        if row["setting"] not in ENDS
    ]
    tables = dict.fromkeys(row["table"] for row in found["rows"])
    return f"""## What the defaults reach

Share of the gain over the label holder alone that the best of the first eight settings has, over
{len(tables)} tables and {found["draws"]} draws ({", ".join(tables)}).
At most {found["table_rows"]:,} rows, a quarter held out; loss(R - L) at most {MAX_WHOLE_LOSS:g}:

{table(heads, lines)}
"""


def section_tried(found: Mapping[str, Any], _: Path) -> str:
    """The section of what else was tried."""
    rows = found["rows"]
    lines = []
    for row in found["shares"]:
        same = [other for other in rows if other["setting"] == row["setting"]]
        if row["setting"] in (*JUDGED, *TRIED, *FEWER):
            guesses = (max(of["guess"] for of in same), fmean(of["mean_guess"] for of in same))
            shares = (
                f"{row[f'{mode}_median']:z.0%}, {row[f'{mode}_worst']:z.0%}" for mode in MODES
            )
            lines.append((row["setting"], "{:.0%}, {:.0%}".format(*guesses), *shares))
    judged = (f"{_SHORT[mode]}: median, worst" for mode in MODES)
    heads = ("setting", "guessed right: most, mean", *judged)
    init = next(row for row in found["shares"] if row["setting"] == "init")
    worst = init["desensitised_worst_of"]
    here = {row["setting"]: row["desensitised"] for row in rows if row["table"] == worst}
    gain = max(here[setting] for setting in PLAIN) - here["alone"]
    return f"""## What else was tried for the defaults

The tables, rows and draws of [the defaults](../evaluation.md#what-the-defaults-reach). The share is
of the best of the settings there that do not denoise. *Guessed right*: how often the best attack
finds in which tenth of all values one lies, in the column where that is most often, and in the mean
over all columns; one that is not released counts as 10 %.

{table(heads, lines)}

- **Better edges bring little under both caps**: exact ones show how much. Twice the cells at half
  the loss of a step change little; forty cells disclose more: a tenth is guessed more often.
- **Fewer columns at the same sum gain most.** Each loses more than these caps: their party
  [chooses that](../choosing.md#fewer-columns-for-the-same-loss). *Half of the columns* are those
  that a model of an earlier release uses most; the loss of that release is not counted.
- **`init` is worst on {worst}**, where the best of these settings gains only {gain:.3f}.
"""


_FULL: Mapping[str, Any] = {"tables": TABLES, "draws": 3, "rows": 12_000}
_QUICK: Mapping[str, Any] = {"tables": ("powerplant",), "draws": 1, "rows": 1_500}

EXPERIMENTS = (
    Experiment(
        "defaults",
        "The share of the gain that `init` and `plan --write` reach, by table.",
        run,
        section,
        options=_FULL,
        quick=_QUICK,
    ),
    Experiment(
        "defaults-tried",
        "The same share of other cells, edges and divisions.",
        run_tried,
        section_tried,
        options=_FULL,
        quick=_QUICK,
    ),
)
