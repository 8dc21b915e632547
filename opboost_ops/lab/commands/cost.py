"""`opboost evaluate cost`."""

from typing import Annotated

import typer

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 3,
    quick: Quick = False,
    dataset: Annotated[list[str] | None, typer.Option(help="Only runs on these tables.")] = None,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """What protection costs: time a cell, bytes a party and seconds of a run.

    Beside it pyope on the same values, and plain LightGBM and XGBoost on the same rows. Needs the
    extras `bench` and `xgboost`.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import cost as experiment

    tables = tuple(dataset or experiment.DATASETS)
    if quick:
        seeds, tables = 1, tuple(dataset or ("credit",))
    with counting("measurements") as progress:
        found = experiment.experiment(tables, seeds, work, progress, quick)
    # Not the words as typed: they may name folders of one's own.
    asked = [f"--seeds {seeds}", *(f"--dataset {name}" for name in dataset or ())]
    asked += ["--quick"] * quick
    found |= {"command": " ".join(["opboost evaluate cost", *asked]), "quick": quick}
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = Table(title=f"{found['values']:,} values on {found['domain']}")
    for head in ("method", "named", "ns a cell", "pyope / ours"):
        shown.add_column(head)
    for line in found["mechanisms"]:
        times = f"{line['nanoseconds_a_cell']:.0f}", f"{line['times_pyope']:,.0f}"
        shown.add_row(line["method"], line["sampler"], *times)
    console.print(shown)
    shown = Table(title="Whole runs")
    heads = ("dataset", "rows", "bytes a cell", "model s", "all s", "LightGBM s", "XGBoost s")
    for head in heads:
        shown.add_column(head)
    for line in found["runs"]:
        shown.add_row(
            line["dataset"],
            f"{line['rows']:,.0f}",
            f"{line['release_bytes'] / line['cells']:.2f}",
            *(f"{line[f'{name}_seconds']:.3f}" for name in ("model", "all", "lightgbm", "xgboost")),
        )
    console.print(shown)
