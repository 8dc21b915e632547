"""What `opboost init` and `plan --write` reach of the gain that eight settings show to be there.

Each measurement trains on one split and one draw of the noise in this process, with the package's
own channels, cells, private edges and denoising. The label holder has some columns of each table
and a feature holder the others, so that the label holder alone is clearly below pooling.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from benchmarks.papers.defaults_tables import TABLES, divided_table
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.settings import on_ten
from benchmarks.papers.two_parties import DOMAIN, Scale, TwoParties
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
from opboost_ops.extras.datasets.tables import ID, Dataset
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.extras.lab.advice import best_by_gain, with_best_scales
from opboost_ops.learning.denoise import joint
from opboost_ops.mechanisms import BucketResponse, Designed, GeneralisedResponse, Mechanism
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
        cells: Where columns are laid: ``linear``, ``planned``, ``private`` or as ``init`` does.
        mechanisms: By column, of a table whose columns are laid.
        joint: Whether the label holder denoises by `learning.denoise.joint`.
    """

    cells: str
    mechanisms: Callable[[TwoParties], Mechanisms]
    joint: bool = False


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
#: What is judged by them.
JUDGED = {
    "init": Setting("init", partial(_every, make=standard)),
    "plan --write": Setting("plan --write", partial(_every, make=standard)),
}
ENDS = {"alone": "alone", "pooled": "raw"}
MODES = ("desensitised", "routed")
COSTS = ("loss_1", "loss_whole", "guess")


def run(options: Options) -> dict[str, Any]:
    """Measure all settings, and their shares of the gain.

    Returns:
        ``rows``: by table and setting the medians over draws of metric and gain share in both
        modes of scoring, and the largest losses and guess rate of a column. ``shares``: by
        setting and mode the median and the least gain share over tables and draws.
    """
    cells = [
        {"table": name, "setting": setting, "draw": draw, "rows": options["rows"]}
        for name in options["tables"]
        for draw in range(options["draws"])
        for setting in (*ENDS, *SETTINGS, *JUDGED)
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
            values = group.get_column(f"{mode}_share")
            line[f"{mode}_median"] = round(median(values), 3)
            line[f"{mode}_worst"] = round(min(values), 3)
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
    setting = {**SETTINGS, **JUDGED}[name]
    both = laid(cell["table"], cell["rows"], draw, setting.cells)
    mechanisms = setting.mechanisms(both)
    frame, clear = both.frames("released", mechanisms)
    if setting.joint:
        channels = {column: of.channel(DOMAIN) for column, of in mechanisms.items()}
        seed = hashlib.sha256(f"joint {draw}".encode()).digest()
        label = both.label[: both.train]
        text = joint.train(frame, label, both.parameters(draw), channels, seed)
        model = both.materialised(text, frame)
    else:
        model = both.trained(frame, both.parameters(draw))
    figures = (both.figure(model, both.desensitised(mechanisms)), both.figure(model, clear))
    spent = {"private": EDGES, **dict.fromkeys(JUDGED, STANDARD_EDGES)}.get(setting.cells, 0.0)
    costs = costs_of(mechanisms, spent)
    return {**dict(zip(MODES, figures, strict=True)), **costs}


def costs_of(mechanisms: Mechanisms, edges: float) -> dict[str, float]:
    """The largest losses of a column, edges included, and how often its value is guessed right.

    Args:
        mechanisms: By column.
        edges: Loss of the edges.
    """
    channels = [mechanism.channel(DOMAIN) for mechanism in {*mechanisms.values()}]
    ends = [end_losses(channel) for channel in channels]
    rates = [planner.guess_rate(channel) for channel in channels]
    step, whole = (max(pair[i] for pair in ends) + edges for i in (0, 1))
    return dict(zip(COSTS, (step, whole, max(rates)), strict=True))


@lru_cache(maxsize=4)
def laid(name: str, rows: int, draw: int, cells: str) -> TwoParties:
    """A table between two parties, the feature holder's columns on ten cells.

    Args:
        name: Of the table.
        rows: Most rows.
        draw: Of split and noise.
        cells: Of which kind.
    """
    scales: dict[str, str | Scale] = {
        "planned": partial(planned, seed=draw),
        "private": partial(private, epsilon=EDGES, seed=draw),
    }
    if cells in JUDGED:
        dataset = divided_table(name, rows)
        edges = partial(private, epsilon=STANDARD_EDGES, seed=draw)
        both = TwoParties(dataset, edges, draw, held_out=HELD_OUT)
        if cells == "init":
            return both
        return TwoParties(dataset, replanned(dataset, both, draw), draw, held_out=HELD_OUT)
    scale = scales.get(cells, partial(formula, scale="linear"))
    return TwoParties(divided_table(name, rows), scale, draw, held_out=HELD_OUT)


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
        only = {name: [standard()] for name in laid_out}
        chosen = best_by_gain(declared, rescaled, holder, sample, only)
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
            *(f"{row[f'{mode}_median']:.0%}, {row[f'{mode}_worst']:.0%}" for mode in MODES),
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


EXPERIMENTS = (
    Experiment(
        "defaults",
        "The share of the gain that `init` and `plan --write` reach, by table.",
        run,
        section,
        options={"tables": TABLES, "draws": 3, "rows": 12_000},
        quick={"tables": ("powerplant",), "draws": 1, "rows": 1_500},
    ),
)
