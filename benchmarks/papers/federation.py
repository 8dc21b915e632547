"""Does federation pay? A whole federation beside training on everything, and alone."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers.experiment import Experiment, Options
from benchmarks.papers.markdown import spread, table
from benchmarks.papers.measurements import measure_all, summary
from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.extras.lab import centralised
from opboost_ops.pipeline.party.party_sites import site_files
from opboost_ops.pipeline.runner.local import run_federation

#: Dataset, epsilon, and the metric that the page shows.
CASES = (("adult", 0.08, "accuracy"), ("adult", 5.12, "auc"), ("powerplant", 1.28, "r2"))
QUICK = ("credit", 1.28, "auc")
MODES = ("centralised", "federated", "federated_desensitised", "label_holder_alone")
LOWER, UPPER = 1, 10

_WORDS = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2"}


def run(options: Options) -> dict[str, Any]:
    """Run federations, a process per party, and average their metrics.

    Returns:
        ``rows``: for each case the metric in each mode, and its spread over seeds.
    """
    cases = [case for case in (*CASES, QUICK) if case[0] in options["dataset"]]
    cells = [
        {"dataset": dataset, "epsilon": epsilon, "metric": metric, "seed": seed}
        for dataset, epsilon, metric in cases
        for seed in range(options.seeds)
    ]
    rows = measure_all(cells, measure, "federation", options)
    lines = summary(rows, ("dataset", "epsilon", "metric"), MODES)
    return {"domain": [LOWER, UPPER], "rows": lines}


def measure(cell: Mapping[str, Any]) -> dict[str, float]:
    """One run of a federation on one computer; its metric in each mode."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_workspace(
            load(cell["dataset"]),
            Path(folder) / "federation",
            epsilon=cell["epsilon"],
            lower=LOWER,
            upper=UPPER,
            seed=cell["seed"],
        )
        done = run_federation(path, {})
        sites = site_files(path, done.federation)
        found = centralised.metrics(
            sites, done.federation.name, done.federation.label_holder, done.run
        )
    return {mode: found[mode][cell["metric"]] for mode in MODES}


def section(found: Mapping[str, Any], _: Path) -> str:
    """The report's section."""
    return f"""## Does federation pay?

{_table(found)}

*Clear* evaluates on held-out rows without noise, which nobody has in production; *desensitised* on
randomised rows, as new rows will be.
"""


def _table(found: Mapping[str, Any]) -> str:
    seeds = found["rows"][0]["seeds"]
    lower, upper = found["domain"]
    heads = ("table, epsilon", "metric", "centralised", "federated, clear",
             "federated, desensitised", "label holder alone")  # fmt: skip
    lines = [
        (
            f"{line['dataset']}, {line['epsilon']:g}",
            _WORDS[line["metric"]],
            *(spread(line, mode) for mode in MODES),
        )
        for line in found["rows"]
    ]
    return (
        f"Mean and standard deviation of {seeds} seeds (split, booster and noise), 80 trees of "
        f"depth 3, learning rate 0.1, domain [{lower}, {upper}], Global-map, 20 % held out:\n\n"
        + table(heads, lines)
    )


EXPERIMENTS = (
    Experiment(
        "federation",
        "Does federation pay? Whole runs beside training on everything, and alone.",
        run,
        section,
        seeds=3,
        options={"dataset": ("adult", "powerplant")},
        quick={"seeds": 1, "dataset": ("credit",)},
    ),
)
