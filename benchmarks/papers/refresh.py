"""Released columns over two years: once or yearly, at the same total loss.

Each month some people's circumstances change: they take the row of another person of the table,
label included. A model is trained and tested each quarter on today's labels and own columns, and
on the other party's columns as they are pinned then.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import pictures
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.two_parties import DOMAIN, TwoParties
from opboost_ops.extras.datasets import load
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.mechanisms import Geometric
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise

#: loss(R-L) of a column over the two years.
TOTAL = 4.5

MONTHS = 24

#: Months between two trainings.
_EVERY = 3

#: Months between two releases of a column; 0: a value is released once.
WAYS = {"never": 0, "yearly": 12}

#: Not a way, since each month's release would cost its loss again.
BOUND = "today's values"

#: The label holder's own columns, which are today's.
ALONE = "alone"


def year_of(month: int, every: int) -> int:
    """The month in which the responses were drawn that a run of a month sends."""
    return month // every * every if every else 0


def _mechanism(releases: int) -> Geometric:
    return Geometric(epsilon=TOTAL / releases / (DOMAIN.size - 1))


def _rows(share: float, people: int, random: np.random.Generator) -> np.ndarray:
    """Whose row each person has, by month: shape (MONTHS + 1, people)."""
    rows = np.tile(np.arange(people), (MONTHS + 1, 1))
    for month in range(1, MONTHS + 1):
        rows[month] = rows[month - 1]
        changed = np.flatnonzero(random.random(people) < share)
        rows[month, changed] = random.integers(people, size=len(changed))
    return rows


def quality(parties: TwoParties, share: float, seed: int) -> dict[str, list[float]]:
    """AUC by way and quarter, on one fixed set of people.

    Args:
        parties: A table in two parts.
        share: Of the people, whose row changes within a month.
        seed: Of changes and noise.
    """
    people = len(parties.label)
    rows = _rows(share, people, np.random.default_rng(seed))
    months = range(0, MONTHS + 1, _EVERY)
    alone = [
        _auc(parties, {n: v[rows[m]] for n, v in parties.own.items()}, parties.label[rows[m]], seed)
        for m in months
    ]
    figures: dict[str, list[float]] = {}
    for way, every in {**WAYS, BOUND: 1}.items():
        releases = MONTHS // every if way != BOUND and every else 1
        mechanism = _mechanism(releases)
        figures[way] = []
        for month in months:
            drawn = year_of(min(month, MONTHS - 1), every) if way != BOUND else month
            columns = {name: values[rows[month]] for name, values in parties.own.items()}
            for name, values in parties.integers.items():
                words = Words.seeded(bytes([seed]) * 32, f"{way}/{drawn}/{name}")
                sent = randomise(values[rows[drawn]], mechanism, DOMAIN, words)
                columns[name] = sent.astype(float)
            figures[way].append(_auc(parties, columns, parties.label[rows[month]], seed))
    return {**figures, ALONE: alone}


def _auc(
    parties: TwoParties, columns: Mapping[str, np.ndarray], label: np.ndarray, seed: int
) -> float:
    matrix = np.asfortranarray(np.column_stack(list(columns.values())))
    frame = Frame(tuple(columns), matrix[: parties.train], parties.nominal, ())
    model = trainer.train(frame, label[: parties.train], parties.parameters(seed))
    prediction = trainer.predict(model, np.asfortranarray(matrix[parties.train :]))
    return parties.evaluated(prediction, label[parties.train :])["second"]


def run(options: Options) -> dict[str, Any]:
    """Mean AUC by share of people, way and quarter."""
    shares, seeds = options["shares"], range(options.seeds)
    dataset = load(options["dataset"])
    found: dict[str, Any] = {}
    for place, share in enumerate(shares):
        runs = []
        for seed in seeds:
            parties = TwoParties(dataset, "linear", seed)
            runs.append(quality(parties, share / 100, seed))
            if options.progress is not None:
                options.progress(place * len(seeds) + seed + 1, len(shares) * len(seeds))
        found[f"{share:g}"] = {
            way: np.mean([each[way] for each in runs], axis=0).round(5).tolist() for way in runs[0]
        }
    return {"seeds": options.seeds, "dataset": options["dataset"], "auc": found}


def section(summary: Mapping[str, Any], folder: Path) -> str:
    """The study as text, a table and a picture."""
    figure, plots = pictures.canvas(len(summary["auc"]), width=3.6)
    months = list(range(0, MONTHS + 1, _EVERY))
    lines = []
    for plot, (share, curves) in zip(plots, summary["auc"].items(), strict=True):
        pictures.lines(plot, months, curves)
        pictures.name_axes(plot, f"{share} % of people change per month", "month", "AUC")
        lines.append((f"{share} %", *(f"{np.mean(values):.4f}" for values in curves.values())))
    pictures.save(figure, folder / "evaluation-refresh.svg")
    heads = ("people who change per month", *summary["auc"][next(iter(summary["auc"]))])
    return (
        "## Released once, or again each year\n\n"
        + _WORDS.format(**summary, months=MONTHS, total=TOTAL)
        + f"\n\n{table(heads, lines)}\n\n"
        + "![AUC over 24 months under never and yearly](figures/evaluation-refresh.svg)\n"
    )


_WORDS = """\
{dataset}, {seeds} draws. Each month a share of the people takes the row of another person. The \
other party's columns are released by the clamped geometric mechanism on [1, 10] with a \
loss(R - L) of {total} over {months} months: once, or twice at half the loss. "Today's values" \
draws all responses again each month at the full loss, which no budget allows: it bounds what a \
release could bring. Mean AUC over the quarters, on released values of held-out people:"""

EXPERIMENTS = (
    Experiment(
        name="refresh",
        help="two years of a release that is made once, or yearly, at the same total loss",
        run=run,
        section=section,
        seeds=3,
        options={"shares": (2.0, 10.0), "dataset": "credit_default"},
        quick={"seeds": 1, "shares": (2.0,), "dataset": "abalone"},
    ),
)
