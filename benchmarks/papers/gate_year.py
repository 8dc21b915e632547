"""A year of nights at the gate: how much of the champion's true AUC each rule loses.

Each night brings a candidate, and the gate sees paired estimates on the held-out rows, 5 % of which
are positive. Estimates are normal with the deviations of binormal scores; a smaller run takes the
scores themselves and the product's own intervals.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from benchmarks.papers import pictures
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from opboost_ops.learning.intervals import Comparison

NIGHTS = 365
ROWS = (500, 2_000, 10_000, 50_000)

#: True AUC at the beginning, change within the year, and share of positives.
_AUC, _CHANGE, _POSITIVE = 0.8, 0.05, 0.05

#: Correlation of two nights' scores of one row.
_ALIKE = 0.8

#: Rows and pairs of models by whose scores the deviations of estimates are found.
_DRAWN, _PAIRS = 2_000, 1_000

#: Rules that are tried with scores, too.
_CHECKED = ("not shown worse than the best by .01", "not below the best")

#: Rules of the report's table: the picture has them all.
_SHOWN = (
    *("always", "not shown worse than the best by .01"),
    *("not below the best", "shown better than the best"),
)

#: Epsilon of a noisy metric of two models.
_EPSILON = 0.5


@dataclass(frozen=True)
class Rule:
    """A rule: promote if the difference is at least some standard errors minus a tolerance.

    Attributes:
        errors: Standard errors by which the candidate must be better; below 0, may be worse.
        tolerance: By how much it may be worse beyond.
        best: Compares with the best champion so far, and not with the present one.
    """

    errors: float
    tolerance: float = 0.0
    best: bool = True


RULES = {
    "always": Rule(-np.inf),
    "not shown worse than the champion by .01": Rule(-1.96, 0.01, best=False),
    "not shown worse than the best by .01": Rule(-1.96, 0.01),
    "not shown worse than the best": Rule(-1.96),
    "at most 1 error below the best": Rule(-1.0),
    "at most half an error below the best": Rule(-0.5),
    "not below the champion": Rule(0.0, best=False),
    "not below the best": Rule(0.0),
    "half an error above the best": Rule(0.5),
    "1 error above the best": Rule(1.0),
    "shown better than the best": Rule(1.96),
}

#: What happens within the year: true AUC by repetition and night.
SCENARIOS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "constant": lambda _, n: np.full((n, NIGHTS), _AUC),
    "falling": lambda _, n: np.tile(_AUC - _CHANGE * np.linspace(0, 1, NIGHTS), (n, 1)),
    "rising": lambda _, n: np.tile(_AUC + _CHANGE * np.linspace(0, 1, NIGHTS), (n, 1)),
    "bad nights": lambda random, n: _AUC - _CHANGE * (random.random((n, NIGHTS)) < 0.05),
}

#: Held-out rows: the same people every night, other ones, or the same with noise in the metric.
DESIGNS = ("same rows", "other rows", "noisy metric")


@dataclass(frozen=True)
class Spread:
    """Deviations of estimates at a number of held-out rows.

    Attributes:
        own: Of one model's AUC, given the rows.
        common: What the choice of rows adds to all models alike.
    """

    own: float
    common: float


def scores(
    random: np.random.Generator, label: np.ndarray, shared: np.ndarray, auc: float
) -> np.ndarray:
    """Binormal scores of a model on rows with a part that all models share.

    Args:
        random: For the model's own part.
        label: 0 or 1, shape (n,).
        shared: The rows' own part, shape (n,).
        auc: The model's true AUC.
    """
    own = random.normal(size=len(label))
    raw = np.sqrt(_ALIKE) * shared + np.sqrt(1 - _ALIKE) * own
    return np.asarray(raw + np.sqrt(2) * ndtri(auc) * label)


def auc_of(label: np.ndarray, score: np.ndarray) -> float:
    """The AUC by ranks."""
    positive = int(label.sum())
    ranks = rankdata(score)[label == 1].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * (len(label) - positive)))


def labels(rows: int) -> np.ndarray:
    """Labels of held-out rows."""
    return (np.arange(rows) < rows * _POSITIVE).astype(float)


@cache
def spread() -> Spread:
    """Deviations of pairs of binormal models on the same `_DRAWN` rows."""
    random = np.random.default_rng(1)
    label, pairs = labels(_DRAWN), []
    for _ in range(_PAIRS):
        shared = random.normal(size=_DRAWN)
        pairs.append([auc_of(label, scores(random, label, shared, _AUC)) for _ in range(2)])
    first, second = np.array(pairs).T
    own = float(np.var(first - second) / 2)
    return Spread(own**0.5, max(float(np.var(first)) - own, 0.0) ** 0.5)


def spread_of(rows: int) -> Spread:
    """Deviations at a number of held-out rows: they shrink with its root.

    Args:
        rows: Held-out rows.
    """
    scale = (_DRAWN / rows) ** 0.5
    return Spread(spread().own * scale, spread().common * scale)


def year(
    quality: np.ndarray, spread: Spread, rows: int, design: str, random: np.random.Generator
) -> dict[str, float]:
    """A year under each rule, with the same candidates and estimates.

    Args:
        quality: True AUC, shape (repetitions, nights).
        spread: Of the estimates.
        rows: Held-out rows.
        design: One of `DESIGNS`.
        random: A generator.

    Returns:
        By rule, by how much the champion's true AUC is below the best candidate's so far: the mean
        over nights and repetitions.
    """
    count, rules = len(quality), list(RULES.values())
    noise = 2 / (_EPSILON * rows) if design == "noisy metric" else 0.0
    # An interval of a noisy metric counts its noise alone: the rows' part is an exact function.
    error = 2 * noise if noise else np.sqrt(2) * spread.own
    k = np.array([rule.errors for rule in rules])[:, None]
    tolerance = np.array([rule.tolerance for rule in rules])[:, None]
    by_best = np.array([rule.best for rule in rules])[:, None]

    def drawn(scale: float) -> np.ndarray:
        return random.normal(scale=scale, size=count) if scale else np.zeros(count)

    first = drawn(spread.own)
    champion = reference = np.tile(quality[:, 0], (len(rules), 1))
    champion_luck = reference_luck = np.tile(first, (len(rules), 1))
    lost = np.zeros((len(rules), count))
    best = quality[:, 0]
    common = drawn(spread.common)
    recorded = np.tile(quality[:, 0] + first + common, (len(rules), 1))
    for night in range(1, quality.shape[1]):
        new, luck = quality[:, night], drawn(spread.own)
        told = new + luck + (random.laplace(scale=noise, size=count) if noise else 0.0)
        if design == "other rows":
            champion_luck = np.tile(drawn(spread.own), (len(rules), 1))
            reference_luck = np.tile(drawn(spread.own), (len(rules), 1))
            common = drawn(spread.common)
        against = np.where(by_best, reference + reference_luck, champion + champion_luck)
        if noise:
            against = against + random.laplace(scale=noise, size=count)
        promote = told - against >= k * error - tolerance
        champion = np.where(promote, new, champion)
        champion_luck = np.where(promote, luck, champion_luck)
        leads = promote & (told + common > recorded)
        recorded = np.where(leads, told + common, recorded)
        reference = np.where(leads, new, reference)
        reference_luck = np.where(leads, luck, reference_luck)
        best = np.maximum(best, new)
        lost += best - champion
    mean = lost.mean(axis=1) / (quality.shape[1] - 1)
    return dict(zip(RULES, mean.tolist(), strict=True))


def exact_year(
    quality: np.ndarray, rows: int, random: np.random.Generator, names: list[str]
) -> dict[str, float]:
    """AUC lost on the same rows with binormal scores and the product's own intervals.

    Args:
        quality: True AUC, shape (repetitions, nights).
        rows: Held-out rows.
        random: A generator.
        names: Rules, all of which compare with the best so far.
    """
    label, lost = labels(rows), dict.fromkeys(names, 0.0)
    for truth in quality:
        shared = random.normal(size=rows)
        models = [scores(random, label, shared, auc) for auc in truth]
        values = [auc_of(label, each) for each in models]
        for name in names:
            rule, champion, reference = RULES[name], 0, 0
            for night in range(1, len(truth)):
                pair = {"new": models[night], "old": models[reference]}
                gain = Comparison("binary", label, pair).gain("new", "old", "auc")
                error = (gain.high - gain.low) / 2 / 1.96
                if gain.value >= rule.errors * error - rule.tolerance:
                    champion = night
                    reference = night if values[night] > values[reference] else reference
                lost[name] += max(truth[: night + 1]) - truth[champion]
    return {name: total / (quality.size - len(quality)) for name, total in lost.items()}


def run(options: Options) -> dict[str, Any]:
    """AUC lost by design, rule, rows and scenario."""
    steps = len(ROWS) * len(DESIGNS) * len(SCENARIOS)
    lost: dict[str, Any] = {design: {rule: {} for rule in RULES} for design in DESIGNS}
    done = 0
    for rows in ROWS:
        for design in DESIGNS:
            for name, draw in SCENARIOS.items():
                random = np.random.default_rng(rows)
                quality = draw(random, options.seeds)
                for rule, loss in year(quality, spread_of(rows), rows, design, random).items():
                    lost[design][rule].setdefault(str(rows), {})[name] = round(loss, 6)
                done += 1
                if options.progress is not None:
                    options.progress(done, steps)
    exact = {}
    for name, draw in SCENARIOS.items():
        random = np.random.default_rng(1)
        exact[name] = exact_year(draw(random, options["exact"]), _DRAWN, random, list(_CHECKED))
    return {"seeds": options.seeds, "lost": lost, "exact": exact}


def section(summary: Mapping[str, Any], folder: Path) -> str:
    """The study as text, tables and a picture."""
    lost, heads = summary["lost"], [f"{rows:,} rows" for rows in ROWS]
    figure, plots = pictures.canvas(len(ROWS), width=3.4)
    for plot, rows in zip(plots, ROWS, strict=True):
        places, left = np.arange(len(RULES)), np.zeros(len(RULES))
        for place, scenario in enumerate(SCENARIOS):
            bars = np.array([_of(lost, "same rows", rule, rows, scenario) for rule in RULES])
            bars /= len(SCENARIOS)
            colour = pictures.COLOURS[place]
            plot.barh(places, bars, left=left, label=scenario, color=colour)
            left += bars
        pictures.name_axes(plot, f"{rows:,} held-out rows", "AUC lost", "")
        plot.set_yticks(places, list(RULES) if rows == ROWS[0] else [""] * len(RULES))
        plot.invert_yaxis()
    plots[-1].legend(frameon=False, fontsize=8)
    pictures.save(figure, folder / "evaluation-gate.svg")
    parts = [_WORDS.format(nights=NIGHTS, seeds=summary["seeds"], half=_CHANGE)]
    lines = [
        (rule, *(f"{_mean(lost, DESIGNS[0], rule, rows):.4f}" for rows in ROWS)) for rule in _SHOWN
    ]
    parts.append(table(("promotes", *heads), lines))
    parts.append("![AUC lost by rule, held-out rows and scenario](figures/evaluation-gate.svg)")
    drawn = [fmean(exact[rule] for exact in summary["exact"].values()) for rule in _CHECKED]
    parts.append(
        f"With binormal scores on the same {_DRAWN:,} rows and the gate's own intervals the second "
        f"rule loses {drawn[0]:.4f}, and *not below the best* {drawn[1]:.4f}."
    )
    return "## Which rule of the gate loses least\n\n" + "\n\n".join(parts) + "\n"


def _of(lost: Mapping[str, Any], design: str, rule: str, rows: int, scenario: str) -> float:
    return float(lost[design][rule][str(rows)][scenario])


def _mean(lost: Mapping[str, Any], design: str, rule: str, rows: int) -> float:
    return sum(_of(lost, design, rule, rows, name) for name in SCENARIOS) / len(SCENARIOS)


_WORDS = """\
A year of {nights} trainings, {seeds} repetitions. The candidates' true AUC is 0.80 all year, \
falls by {half}, rises by {half}, or is {half} lower in one training of twenty; 5 % of rows are \
positive. The table has how far the champion's true AUC is below that of the best candidate so \
far, mean over trainings and the four years. The gate promotes what is **not below the best**: \
held-out rows are the same people in every run, and there this rule loses least at every number of \
rows. With noisy metrics an allowance for the noise loses more. If other people were held out in \
every run, only what is shown to be better should be promoted."""

EXPERIMENTS = (
    Experiment(
        name="gate",
        help="a year of nights: how much of the champion's AUC each rule of the gate loses",
        run=run,
        section=section,
        seeds=300,
        options={"exact": 4},
        quick={"seeds": 2, "exact": 1},
    ),
)
