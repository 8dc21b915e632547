"""`opboost evaluate horizontal`."""

from typing import Annotated

import typer

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 5,
    quick: Quick = False,
    public: Annotated[bool, typer.Option(help="The public tables, too.")] = True,
    growth: Annotated[bool, typer.Option(help="With up to 32 parties, too.")] = True,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """FederBoost with secure aggregation, beside LightGBM on the pooled table.

    An interrupted run measures only what is missing of the accuracies; times are taken anew.
    """
    import os

    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import horizontal as experiment

    datasets = experiment.DATASETS if public and not quick else ()
    with counting("measurements") as progress:
        rows = experiment.accuracy(datasets, seeds, work, progress) if datasets else []
    trees = 2 if quick else 200
    options = f"--seeds {seeds}{' --quick' if quick else ''}"
    options += "" if public else " --no-public"
    options += "" if growth else " --no-growth"
    found = {
        "name": "horizontal",
        "command": f"opboost evaluate horizontal {options}",
        "quick": quick,
        "trees": experiment.TREES,
        "layers": experiment.LAYERS,
        "buckets": experiment.BUCKETS,
        "penalty": experiment.GROWTH.penalty,
        "least_node": experiment.GROWTH.least_node,
        "rows": rows,
        "paper": experiment.PAPER,
        "load": round(os.getloadavg()[0], 1),
        "times": experiment.times((3,), trees, 4, rows=600 if quick else 8192),
        "growth": experiment.times(experiment.PARTIES, 10, 4) if growth and not quick else [],
    }
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="AUC in percent, horizontal beside LightGBM on the pooled table")
    for head in (
        "dataset",
        "missing values",
        "learning rate",
        "seeds",
        "horizontal",
        "same bins",
        "difference",
        "own bins",
    ):
        shown.add_column(head)
    for line in rows:
        figures = (line[n] for n in ("horizontal", "same_bins", "difference", "own_bins"))
        names = (line["dataset"], line["missing"], f"{line['learning_rate']:g}", str(line["seeds"]))
        shown.add_row(*names, *(f"{f:.3f}" for f in figures))
    Console().print(shown)
    for line in [*found["times"], *found["growth"]]:  # type: ignore[misc]
        print(
            f"{line['parties']} parties, {line['trees']} trees of {line['layers']} layers: "
            f"{line['seconds']:.2f} s; LightGBM on all rows {line['lightgbm']:.2f} s"
        )
