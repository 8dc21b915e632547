"""The price list: what a federation gains at each guess rate, between alone and pooled, both tuned.

The ceilings are LightGBM with early stopping on a fifth of the training rows, the best of three
sizes of trees by that fifth; the same parameters as the federation's stand beside them.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import lightgbm
import numpy as np

from benchmarks.papers.denoise import divided
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.settings import on_ten
from benchmarks.papers.two_parties import DOMAIN, TwoParties
from opboost_ops.extras.datasets import load
from opboost_ops.learning.boosters.backend import Frame, stopping_rows
from opboost_ops.learning.metrics import main_metric
from opboost_ops.mechanisms import Geometric, Mechanism
from opboost_ops.privacy.consent.guessing import Law
from opboost_ops.privacy.loss import end_losses
from opboost_ops.privacy.planner import guess_rate

DATASETS = ("adult", "credit_default", "powerplant", "casp")

#: Shares of values that the best attack guesses right, all ten equally likely before.
DESIGNED_RATE = 0.368
RATES = (0.2, 0.3, DESIGNED_RATE, 0.5)

#: Leaves of a tuned tree, and fewest rows in one.
_SIZES = ((31, 20), (127, 20), (255, 10))
_ROUNDS, _PATIENCE, _JUDGED = 1_000, 30, 0.2


def run(options: Options) -> dict[str, Any]:
    """Measure all tables and sum them up.

    Returns:
        ``mechanisms``: by guess rate the mechanism, its losses and its guesses of two and three
        values. ``rows``: by table the medians over seeds.
    """
    cells = [
        {"dataset": dataset, "seed": seed}
        for dataset in options["dataset"]
        for seed in range(options.seeds)
    ]
    found = measure_all(cells, measure, "price", options)
    rows = []
    for (dataset,), group in found.group_by(["dataset"], maintain_order=True):
        figures = {
            name: round(median(group.get_column(name)), 6)
            for name in group.columns
            if name not in ("dataset", "seed")
        }
        rows.append({"dataset": dataset, "metric": main_metric(load(str(dataset)).task), **figures})
    mechanisms = []
    for rate in RATES:
        mechanism = mechanism_at(rate)
        losses = end_losses(mechanism.channel(DOMAIN))
        guess = Law(mechanism.channel(DOMAIN)).guess(losses[1])
        mechanisms.append(
            {
                "rate": round(guess.after, 4),
                "mechanism": mechanism.label(),
                "loss_1": losses[0],
                "loss_whole": losses[1],
                "of_two": guess.of_two,
                "of_three": guess.of_three,
            }
        )
    return {"seeds": options.seeds, "mechanisms": mechanisms, "rows": rows}


@lru_cache
def mechanism_at(rate: float) -> Mechanism:
    """A channel for both caps at its own rate, the clamped geometric mechanism at all others.

    Args:
        rate: Of `RATES`.
    """
    if rate == DESIGNED_RATE:
        return on_ten()
    low, high = 0.001, 20.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        fits = guess_rate(Geometric(epsilon=round(middle, 6)).channel(DOMAIN)) <= rate
        low, high = (middle, high) if fits else (low, middle)
    return Geometric(epsilon=round(low, 4))


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train on one split and one draw at each guess rate.

    Args:
        cell: Dataset and seed.
    """
    both = TwoParties(divided(cell["dataset"]), "linear", cell["seed"])
    parameters = both.parameters(cell["seed"])
    found = {}
    for name, method in (("alone", "alone"), ("pooled", "raw")):
        if method == "alone" and not both.own:
            found[name] = found[f"{name}_tuned"] = _constant(both)
            continue
        frame, test = both.frames(method)
        found[name] = both.figure(both.trained(frame, parameters), test)
        found[f"{name}_tuned"] = _tuned(both, frame, test, cell["seed"])
    for rate in RATES:
        of = both.figures(mechanism_at(rate), cell["seed"])
        found |= {f"desensitised_{rate}": of[0], f"routed_{rate}": of[1]}
    return found


def _constant(both: TwoParties) -> float:
    """What the training rows' mean predicts; of two classes an AUC of one half."""
    if both.task != "regression":
        return 0.5
    rows = len(both.label) - both.train
    return both.evaluated(np.full(rows, both.label[: both.train].mean()))["second"]


def _tuned(both: TwoParties, frame: Frame, test: np.ndarray, seed: int) -> float:
    label = both.label[: both.train]
    judged = stopping_rows(label, _JUDGED, seed, "ceiling")
    nominal = [frame.names.index(name) for name in frame.categorical]
    best_score, model = np.inf, None
    for leaves, least in _SIZES:
        settings = {
            "objective": "binary" if both.task == "binary" else "regression",
            "num_leaves": leaves, "min_data_in_leaf": least, "learning_rate": 0.1,
            "feature_fraction": 0.8, "bagging_fraction": 0.8, "bagging_freq": 1,
            "seed": seed, "verbosity": -1, "num_threads": 2,
        }  # fmt: skip
        learns = lightgbm.Dataset(
            frame.matrix[~judged], label[~judged], categorical_feature=nominal, params=settings
        )
        booster = lightgbm.train(
            settings,
            learns,
            _ROUNDS,
            valid_sets=[learns.create_valid(frame.matrix[judged], label[judged])],
            callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
        )
        score = next(iter(booster.best_score["valid_0"].values()))
        if score < best_score:
            best_score, model = score, booster
    assert model is not None
    return both.evaluated(np.asarray(model.predict(test)))["second"]


def section(found: Mapping[str, Any], _folder: Path) -> str:
    """The section."""
    mechanisms = [
        (
            f"{100 * row['rate']:.1f} %",
            *(f"{100 * row[of]:.1f} %" for of in ("of_two", "of_three")),
            *(f"{float(row[of]):.2f}" for of in ("loss_1", "loss_whole")),
            row["mechanism"],
        )
        for row in found["mechanisms"]
    ]
    heads = ("guessed right", "of two", "of three", "loss(1)", "loss(R - L)", "mechanism")
    columns = [f"{100 * rate:.1f} %" for rate in RATES]
    prices = [
        (
            f"{row['dataset']}, {row['metric'].upper()}",
            _pair(row["alone"], row["alone_tuned"]),
            *(_pair(row[f"desensitised_{rate}"], row[f"routed_{rate}"]) for rate in RATES),
            _pair(row["pooled"], row["pooled_tuned"]),
        )
        for row in found["rows"]
    ]
    parts = [
        "## The price list by guess rate",
        "[How often](guarantee.md#guess-rates) the best attack guesses a value right: of all ten, "
        f"of the worst two, of the worst three. Medians of {found['seeds']} splits and draws, 80 "
        "trees of depth 3. Alone and pooled: the same parameters / LightGBM with early stopping "
        "and larger trees. Federated: randomised / clear test rows.",
        table(heads, mechanisms),
        table(("table", "alone", *columns, "pooled"), prices),
    ]
    return "\n\n".join(parts) + "\n"


def _pair(first: float, second: float) -> str:
    # Added to zero, a rounded -0.0 has no sign.
    return f"{round(first, 3) + 0:.3f} / {round(second, 3) + 0:.3f}"


EXPERIMENTS = (
    Experiment(
        "price",
        "What a federation gains at each guess rate, beside tuned ceilings.",
        run,
        section,
        seeds=5,
        options={"dataset": DATASETS},
        quick={"seeds": 1, "dataset": DATASETS[2:3]},
    ),
)
