"""Does federation pay? A whole federation beside training on everything, and alone."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opboost_ops.datasets import harness, load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.lab.experiment import Progress, run, summary
from opboost_ops.lab.markdown import spread, table
from opboost_ops.run.local import run_federation
from opboost_ops.run.party_sites import site_files

#: Dataset, epsilon, and the metric that the README shows.
CASES = (("adult", 0.08, "accuracy"), ("adult", 5.12, "auc"), ("powerplant", 1.28, "r2"))
MODES = ("centralised", "federated", "federated_desensitised", "label_holder_alone")
LOWER, UPPER = 1, 10

_WORDS = {"accuracy": "accuracy", "auc": "AUC", "r2": "R2"}


def experiment(
    cases: Sequence[tuple[str, float, str]],
    seeds: int,
    work: Path,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run federations, a process a party, and average their metrics.

    Args:
        cases: Dataset, epsilon and metric.
        seeds: How many: of split, booster and noise.
        work: Folder where measurements are kept.
        progress: Called with how many runs are done, and of how many.

    Returns:
        ``rows``: for each case the metric in each mode, and its spread over seeds.
    """
    cells = [
        {"dataset": dataset, "epsilon": epsilon, "metric": metric, "seed": seed}
        for dataset, epsilon, metric in cases
        for seed in range(seeds)
    ]
    rows = run(cells, measure, work / "federation.parquet", progress)
    lines = summary(rows, ("dataset", "epsilon", "metric"), MODES)
    return {"name": "federation", "domain": [LOWER, UPPER], "rows": lines}


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
        found = harness.metrics(sites, done.federation.name, done.federation.label_holder, done.run)
    return {mode: found[mode][cell["metric"]] for mode in MODES}


def section(found: Mapping[str, Any], pictures: Path) -> str:  # noqa: ARG001 (has none)
    """The report's section.

    Args:
        found: What `experiment` gave.
        pictures: Folder of the report's pictures.
    """
    return f"""## Does federation pay?

{quoted(found)}

*Clear* evaluates on unrandomised held-out rows, which nobody holds in production; *desensitised*
on rows that passed the mechanism, as new rows will. A federation that is not clearly better than
the label holder alone is not worth its privacy loss: this table says when that is so.
"""


def quoted(found: Mapping[str, Any]) -> str:
    """What the README quotes: a table of the cases."""
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
