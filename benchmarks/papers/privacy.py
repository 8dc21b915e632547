"""The trade-off: how many cells attackers place right, beside what is left of accuracy.

Attackers know the mechanism, its parameters and the exact distribution of each column. On ten
values a guess is right if it is the very value.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.papers import accuracy, pictures
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.measurements import measure_all, summary
from benchmarks.papers.settings import EPSILONS
from benchmarks.papers.two_parties import DEPTH, DOMAIN, RATE, TREES, TwoParties
from opboost_ops.domain import Domain
from opboost_ops.extras.lab.leakage import most_correlated
from opboost_ops.mechanisms import Mechanism
from opboost_ops.privacy import attacks
from opboost_ops.privacy.attacks import correlated
from opboost_ops.privacy.averaging import averaging
from opboost_ops.privacy.loss import loss_curve

DATASETS = ("powerplant", "pendigits", "adult")
#: Mechanism, theta, alpha: a line of the picture each.
METHODS: tuple[tuple[str, int, float], ...] = (
    ("global_map", 0, 0.0),
    ("geometric", 0, 0.0),
    ("adj_map", 4, 0.4),
    ("adj_map", 4, 2.0),
    ("adj_map", 4, 10.0),
    ("local_map", 2, 0.0),
    ("local_map", 4, 0.0),
    ("piecewise", 0, 0.0),
    ("bucket_response", 0, 0.0),
    ("grr", 0, 0.0),
)
_LONG = ("pendigits", "adult")

#: Where mechanisms are compared at one measured loss.
EQUAL_LOSS_ONE = (0.02, 0.1, 0.3, 1.0, 3.0)
EQUAL_LOSS_WHOLE = (0.1, 0.3, 1.0, 3.0, 5.0, 10.0)

#: Independent releases over which averaging is tried, and most rows on which it is.
DRAWS, SAMPLE = 10, 2000

FIGURES = ("guess", "correlated", "averaged")
_BASELINES = ("baseline", "correlated_baseline")
_MEASURED = ("ratio", "metric", "second", *FIGURES, *_BASELINES)


def cells(
    datasets: Sequence[str], epsilons: Sequence[float], seeds: int
) -> Iterator[dict[str, Any]]:
    """Settings of the experiment; those of one seed and table stand together, seed by seed.

    Args:
        datasets: Names.
        epsilons: For the mechanisms; every other one where a measurement takes long.
        seeds: How many.
    """
    for seed in range(seeds):
        for dataset in datasets:
            some = epsilons[1::2] if dataset in _LONG and epsilons[1:] else epsilons
            fixed = {"dataset": dataset, "trainer": "lightgbm", "scale": "linear"}
            for method in ("raw", "alone"):
                none = {"method": method, "epsilon": 0.0, "theta": 0, "alpha": 0.0}
                yield {**fixed, **none, "seed": seed}
            for name, theta, alpha in METHODS:
                for epsilon in some:
                    setting = {"method": name, "epsilon": epsilon, "theta": theta, "alpha": alpha}
                    yield {**fixed, **setting, "seed": seed}


def run(options: Options) -> dict[str, Any]:
    """Measure all settings and sum them up.

    Returns:
        ``rows``: for each setting accuracy, its ratio to no protection, the attacks' success and
        the two losses; ``equal_loss``: the ratio of every mechanism at one measured loss.
    """
    wanted = list(cells(options["dataset"], options["epsilon"], options.seeds))
    rows = accuracy.with_ratio(measure_all(wanted, measure, "privacy", options))
    lines = summary(rows, accuracy.BY, _MEASURED)
    for line in lines:
        line["loss_one"], line["loss_whole"] = losses(line)
    return {
        "domain": [DOMAIN.lower, DOMAIN.upper],
        "trees": TREES,
        "rate": RATE,
        "depth": DEPTH,
        "draws": DRAWS,
        "averaging_rows": SAMPLE,
        "rows": lines,
        "equal_loss": [
            *equal_loss(lines, "loss_one", EQUAL_LOSS_ONE),
            *equal_loss(lines, "loss_whole", EQUAL_LOSS_WHOLE),
        ],
    }


def measure(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Train, test and attack one setting.

    Args:
        cell: One of `cells`.

    Returns:
        What `accuracy.measure` gives, and the attacks' success, the mean over B's columns: null
        where columns are given as they are, the baseline where nothing is.
    """
    found: dict[str, Any] = dict(accuracy.measure(cell))
    protected = accuracy.prepared(cell["dataset"], cell["scale"], cell["seed"])
    if cell["method"] == "raw":
        return {**found, **dict.fromkeys((*FIGURES, *_BASELINES))}
    if cell["method"] == "alone":
        shares = [
            np.bincount(values).max() / len(values) for values in protected.protected.values()
        ]
        blind: dict[str, float | None] = dict.fromkeys((*FIGURES, *_BASELINES), fmean(shares))
        blind |= {"correlated": None, "correlated_baseline": None}
        return {**found, **blind}
    mechanism = accuracy.mechanism_of(cell)
    return {**found, **attacked(protected, mechanism, DOMAIN)}


def attacked(table: TwoParties, mechanism: Mechanism, domain: Domain) -> dict[str, float]:
    """Success of the attacks on B's columns.

    Args:
        table: The two parties.
        mechanism: What randomises the columns.
        domain: Where they lie.

    Returns:
        Means over the columns: ``guess``, ``correlated`` (with the most correlated other column
        known), ``averaged`` (over independent releases, which keyed noise does not give);
        ``baseline``, the most frequent value guessed for all, and ``correlated_baseline``, the
        best guess from the known column alone.
    """
    values, released = table.protected, table.released(mechanism)
    channel, near = mechanism.channel(domain), attacks.tolerance_of(domain)
    again = [released, *(table.released(mechanism, draw) for draw in range(1, DRAWS))]
    found: dict[str, list[float]] = {}
    for name, own in values.items():
        marginal = attacks.marginal_of(own, channel)
        guess = attacks.guess(own, released[name], channel, marginal, near)
        partner = most_correlated(name, values)
        some = np.unique(np.linspace(0, len(own) - 1, SAMPLE).astype(np.int64))
        draws = np.stack([one[name][some] for one in again])
        line = {
            "guess": guess.success,
            "averaged": averaging(own[some], channel, draws, near, marginal).success,
            "baseline": float(attacks.best_windows(marginal[None, :], near)[1][0]),
        }
        if partner is not None:
            known = correlated(own, released[name], values[partner], channel, near)
            line |= {"correlated": known.success, "correlated_baseline": known.baseline}
        for figure, value in line.items():
            found.setdefault(figure, []).append(value)
    return {name: fmean(each) for name, each in found.items()}


def losses(line: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """loss(1) and loss(R - L) of a setting, exact; None where there is none, or it is infinite."""
    if not line["epsilon"]:
        return None, None
    curve = loss_curve(accuracy.mechanism_of(line), DOMAIN).loss
    one, whole = (None if v == "inf" else round(float(v), 6) for v in (curve[0], curve[-1]))
    return one, whole


def equal_loss(
    lines: Sequence[Mapping[str, Any]], loss: str, targets: Sequence[float]
) -> list[dict[str, Any]]:
    """What every mechanism leaves of accuracy at one measured loss.

    Between two measured epsilons the ratio is taken linearly in the logarithm of the loss; beyond
    the measured ones there is none. Local-map, whose loss is infinite, has no point.

    Args:
        lines: With ``ratio``, its spread and losses.
        loss: ``loss_one`` or ``loss_whole``.
        targets: Losses.

    Returns:
        A line for each dataset and target: ``ratios`` by mechanism, the ``best`` of them, and
        ``spread``, the largest spread over seeds of the points that the best stands on.
    """
    result = []
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        for target in targets:
            found: dict[str, tuple[float, float]] = {}
            mine = [x for x in lines if x["dataset"] == dataset and x[loss] is not None]
            for name in dict.fromkeys(accuracy.name_of(line) for line in mine):
                points = sorted(
                    (x[loss], x["ratio"], x["ratio_sd"])
                    for x in mine
                    if accuracy.name_of(x) == name
                )
                known, ratios, spreads = (np.array(part) for part in zip(*points, strict=True))
                if known[0] <= target <= known[-1]:
                    at = np.log([target, *known])
                    right = min(int(np.searchsorted(known, target)), len(known) - 1)
                    spread = spreads[max(right - 1, 0) : right + 1].max()
                    found[name] = float(np.interp(at[0], at[1:], ratios)), float(spread)
            if found:
                best = max(found, key=lambda name: found[name][0])
                result.append(
                    {
                        "dataset": dataset,
                        "loss": loss,
                        "at": target,
                        "ratios": {name: round(ratio, 4) for name, (ratio, _) in found.items()},
                        "best": best,
                        "spread": round(found[best][1], 4),
                    }
                )
    return result


_NONE = ("raw", "alone")
_LOSSES = {"loss_one": "loss(1)", "loss_whole": "loss(R - L)"}


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, and its pictures."""
    _draw(found, [("guess", "share of cells guessed right")], folder / "evaluation-privacy.svg")
    _draw(found, [*_LOSSES.items()], folder / "evaluation-privacy-equal-loss.svg")
    seeds = sorted({line["seeds"] for line in found["rows"]})
    lower, upper = found["domain"]
    return "\n".join(
        [
            "## Attacks beside accuracy",
            "",
            f"Domain [{lower}, {upper}], LightGBM, {found['trees']} trees of depth "
            f"{found['depth']}, linear map, mean of {' to '.join(map(str, seeds))} seeds, tested "
            "on clear rows. Accuracy is relative to training without protection on the same split "
            "(in regression, MSE without over MSE with). The attacker knows the mechanism and the "
            "exact distribution of each column; shares are of exactly right guesses, means over "
            "the protected columns.",
            "",
            "![Success of guessing against accuracy, a line a mechanism](figures/"
            "evaluation-privacy.svg)",
            "",
            "Top left is best. The vertical line is an attacker who guesses the most frequent "
            "value.",
            "",
            "### At equal measured loss",
            "",
            "Between two measured epsilons accuracy is interpolated over the logarithm of the "
            "loss.",
            "",
            "![Accuracy against both losses](figures/evaluation-privacy-equal-loss.svg)",
        ]
    )


def _draw(found: Mapping[str, Any], kinds: Sequence[tuple[str, str]], path: Path) -> None:
    """Accuracy against figures of the lines, a row a figure and a column a table."""
    names = list(dict.fromkeys(line["dataset"] for line in found["rows"]))
    figure, plots = pictures.canvas(columns=len(names), rows=len(kinds))
    for i, (x, words) in enumerate(kinds):
        for plot, dataset in zip(plots[i * len(names) :], names, strict=False):
            mine = [of for of in found["rows"] if of["dataset"] == dataset and of[x] is not None]
            _curves(plot, mine, _names(found), x)
            if x == "guess":
                plot.axvline(mine[0]["baseline"], linestyle=":", color=pictures.COLOURS[3])
            else:
                plot.set_xscale("log")
            pictures.name_axes(plot, dataset, words, "accuracy, 1 is raw")
    pictures.legend(plots[0])
    pictures.save(figure, path)


def _names(found: Mapping[str, Any]) -> list[str]:
    methods = (line for line in found["rows"] if line["method"] not in _NONE)
    return list(dict.fromkeys(map(accuracy.name_of, methods)))


def _curves(
    plot: Any,
    lines: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    x: str,
) -> None:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["method"] not in _NONE:
            groups.setdefault(accuracy.name_of(line), []).append(line)
    for name, points in groups.items():
        ordered = sorted(points, key=lambda line: line["epsilon"])
        # The same colour and mark in every plot.
        place = names.index(name)
        plot.errorbar(
            np.array([line[x] for line in ordered]),
            np.array([line["ratio"] for line in ordered]),
            yerr=np.array([line["ratio_sd"] for line in ordered]),
            label=name,
            linestyle="-" if place < len(pictures.COLOURS) else "--",
            elinewidth=0.6,
            **pictures.style(place),
        )


EXPERIMENTS = (
    Experiment(
        "privacy",
        "How many cells attackers place, beside what is left of accuracy, for every mechanism.",
        run,
        section,
        seeds=5,
        options={"dataset": DATASETS, "epsilon": EPSILONS},
        quick={"seeds": 1, "dataset": ("powerplant",), "epsilon": (0.08, 1.28)},
    ),
)
