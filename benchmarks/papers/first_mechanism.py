"""Which mechanism `opboost init` should write: Global-map, or another one at equal loss(R - L).

Each measurement trains with all of them on one split and one draw, so that differences are paired.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.papers.denoise import divided
from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.harm import half_width, harm, holm
from benchmarks.papers.markdown import table
from benchmarks.papers.measurements import measure_all
from benchmarks.papers.settings import epsilon_at, method
from benchmarks.papers.two_parties import DOMAIN, TwoParties
from opboost_ops.config.channel_files import STANDARD, read_tables
from opboost_ops.extras.datasets import load
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.metrics import main_metric
from opboost_ops.mechanisms import Designed, Geometric, GlobalMap, Mechanism
from opboost_ops.privacy.loss import end_losses

DATASETS = ("adult", "powerplant", "pendigits", "abalone", "casp", "credit_default")

#: Global-map's, which `init` wrote before.
EPSILON = 1.0
MECHANISMS = ("global_map", "geometric", "designed")
OTHERS = MECHANISMS[1:]
MODES = ("desensitised", "clear")


def run(options: Options) -> dict[str, Any]:
    """Measure all tables and sum them up.

    Returns:
        ``losses``: loss(1) and loss(R - L) of each mechanism. ``rows``: for each table and mode of
        scoring the main metric with Global-map, and of each other mechanism the gain, half the
        width of its 95 % interval, and whether `harm.holm` names a loss.
    """
    cells = [
        {"dataset": dataset, "seed": seed}
        for dataset in options["dataset"]
        for seed in range(options.seeds)
    ]
    found = measure_all(cells, measure, "first_mechanism", options)
    rows = []
    for mode in MODES:
        for (dataset,), group in found.group_by(["dataset"], maintain_order=True):
            values = {name: group.get_column(f"{name}_{mode}") for name in MECHANISMS}
            row = {"dataset": dataset, "mode": mode, "metric": main_metric(load(str(dataset)).task)}
            row["global_map"] = round(fmean(values["global_map"]), 6)
            for name in OTHERS:
                gains = (values[name] - values["global_map"]).to_list()
                row[f"{name}_gain"] = round(fmean(gains), 6)
                row[f"{name}_half"] = half_width(gains)
                row[f"{name}_worse"] = harm(gains)
            rows.append(row)
    for name in OTHERS:
        named = holm([row[f"{name}_worse"] for row in rows])
        for row, worse in zip(rows, named, strict=True):
            row[f"{name}_worse"] = worse
    losses = {name: end_losses(chosen(name).channel(DOMAIN)) for name in MECHANISMS}
    return {"seeds": options.seeds, "losses": losses, "rows": rows}


@lru_cache
def chosen(name: str) -> Mechanism:
    """A mechanism whose loss(R - L) is at most that of Global-map at `EPSILON`.

    Args:
        name: Of `MECHANISMS`.
    """
    before = GlobalMap(epsilon=EPSILON)
    if name == "geometric":
        _, whole = end_losses(before.channel(DOMAIN))
        return Geometric(epsilon=epsilon_at(method(name), DOMAIN, "loss_whole", whole))
    if name == "designed":
        # What `init` writes: neither of its losses is above Global-map's.
        feature = {"mechanism": dict(STANDARD)}
        read_tables({"parties": {"b": {"features": {"x": feature}}}}, Path())
        return Designed.model_validate(feature["mechanism"])
    return before


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """Train with each mechanism on one split.

    Args:
        cell: Dataset and seed.

    Returns:
        The main metric by mechanism and mode.
    """
    both = TwoParties(divided(cell["dataset"]), "linear", cell["seed"])
    found = {}
    for name in MECHANISMS:
        frame, clear = both.frames(name, chosen(name))
        model = both.trained(frame, both.parameters(cell["seed"]))
        rows = {"desensitised": both.desensitised(chosen(name)), "clear": clear}
        for mode in MODES:
            predicted = trainer.predict(model, rows[mode])
            found[f"{name}_{mode}"] = both.evaluated(predicted)["second"]
    return found


def section(found: Mapping[str, Any], _folder: Path) -> str:
    """The section."""
    losses = "; ".join(
        f"{name.replace('_', '-')} {step:.3f} and {whole:.3f}"
        for name, (step, whole) in found["losses"].items()
    )
    lines = [
        (
            row["dataset"],
            row["mode"],
            row["metric"].upper(),
            f"{row['global_map']:.4f}",
            *(_gain(row, name) for name in OTHERS),
        )
        for row in found["rows"]
        if row["mode"] == MODES[0] or any(row[f"{name}_worse"] for name in OTHERS)
    ]
    parts = [
        "## The mechanism that init writes",
        f"Global-map at epsilon {EPSILON:g} on [1, 10] beside others of equal loss(R - L). loss(1) "
        f"and loss(R - L): {losses}. Gains are paired over {found['seeds']} splits and draws, with "
        "half of a 95 % interval; **worse** where one-sided t tests with Holm's correction at 5 % "
        f"find a loss. Shown are {MODES[0]} scoring and every row with a loss:",
        table(("table", "new rows", "metric", "Global-map", *OTHERS), lines),
    ]
    for mode in MODES:
        here = [row for row in found["rows"] if row["mode"] == mode]
        means = ", ".join(
            f"{name} {fmean(row[f'{name}_gain'] for row in here):+.4f}" for name in OTHERS
        )
        parts.append(f"Mean gain, {mode}: {means}.")
    return "\n\n".join(parts) + "\n"


def _gain(row: Mapping[str, Any], name: str) -> str:
    half = row[f"{name}_half"]
    text = f"{row[f'{name}_gain']:+.4f}" + (f" ± {half:.4f}" if half else "")
    return f"{text}, **worse**" if row[f"{name}_worse"] else text


EXPERIMENTS = (
    Experiment(
        "first-mechanism",
        "Other mechanisms beside Global-map at equal loss(R - L), by table.",
        run,
        section,
        seeds=10,
        options={"dataset": DATASETS},
        quick={"seeds": 2, "dataset": DATASETS[1:2]},
    ),
)
