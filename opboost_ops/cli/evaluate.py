"""`opboost evaluate`: the papers' workloads, by one command each."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.errors import ConfigError

app = typer.Typer(help="The papers' workloads, by one command each.", no_args_is_help=True)

#: Measurements are many and cheap to have again: they are not part of the project.
_WORK = Path("runs/evaluation")


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("table5")
def table5(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Order preservation by distance: enumerated, and as the argument about partitions has it."""
    import json

    from opboost_ops.evaluation.table5 import table5 as compute

    result = compute()
    if as_json:
        print(json.dumps(result))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="OpBoost's Table 5: |D| = 100, theta = 10, epsilon = 0.1 (exact / formula)")
    table.add_column("dist")
    for cell in result["rows"][0]["cells"]:
        table.add_column(str(cell["dist"]), justify="right")
    for row in result["rows"]:
        cells = (f"{cell['exact']:.4f}\n{cell['formula']:.4f}" for cell in row["cells"])
        table.add_row(row["method"], *cells)
    console = Console()
    console.print(table)
    for note in result["notes"]:
        console.print(note)


@app.command("accuracy")
def accuracy(
    seeds: Annotated[int, typer.Option(help="How many splits and draws of noise.")] = 10,
    quick: Annotated[bool, typer.Option(help="One seed, two tables, one epsilon.")] = False,
    dataset: Annotated[list[str] | None, typer.Option(help="Only these tables.")] = None,
    booster: Annotated[str, typer.Option(help="lightgbm, xgboost or both.")] = "lightgbm",
    curves: Annotated[bool, typer.Option(help="All epsilons of the figures.")] = False,
    work: Annotated[Path, typer.Option(help="Where measurements are kept.")] = _WORK,
    summary: Annotated[Path | None, typer.Option(help="Write the summary there, too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """What protection leaves of accuracy: the workload of OpBoost's Table 6 and its figures.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    import json

    from opboost_ops.cli.progress import counting
    from opboost_ops.evaluation import accuracy as experiment

    if booster not in experiment.TRAINERS:
        raise ConfigError(f"There is no booster {booster}.", "lightgbm, xgboost or both.")
    trainers = experiment.TRAINERS[booster]
    tables = tuple(dataset or experiment.DATASETS)
    epsilons: tuple[float, ...] = experiment.TABLE_EPSILONS
    alphas: tuple[float, ...] = experiment.ALPHAS
    if curves:
        epsilons = experiment.EPSILONS
    if quick:
        seeds, tables, epsilons, alphas = 1, ("powerplant", "pendigits"), (1.28,), (2.0,)
    with counting("measurements") as progress:
        found = experiment.experiment(tables, epsilons, seeds, work, progress, alphas, trainers)
    if summary is not None:
        summary.parent.mkdir(parents=True, exist_ok=True)
        summary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Accuracy, or MSE in regression, as a share of no protection")
    for head in ("dataset", "booster", "map", "method", "epsilon", "seeds", "ratio", "spread"):
        shown.add_column(head)
    for line in found["rows"]:
        shown.add_row(
            line["dataset"],
            line["trainer"],
            line["scale"],
            experiment.name_of(line),
            f"{line['epsilon']:g}",
            str(line["seeds"]),
            f"{line['ratio']:.4f}",
            f"{line['ratio_sd']:.4f}",
        )
    Console().print(shown)


@app.command("figures")
def figures(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("docs/figures"),
) -> None:
    """Draw the pictures of the documents: output laws, loss, order preservation, averaging."""
    from opboost_ops.evaluation.figures import draw

    for path in draw(out):
        print(path)


@app.command("month")
def month(
    dataset: Annotated[str, typer.Option(help="A named table.")] = "adult",
    nights: Annotated[int, typer.Option(help="How many.")] = 30,
    fitting: Annotated[int, typer.Option(help="Releases that a feature's budget allows.")] = 24,
    rows: Annotated[int | None, typer.Option(help="Of the generated table.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Where the picture goes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Retrain every night while 2 % of the rows change: the charge outside, the cells inside."""
    import json
    import tempfile

    from opboost_ops.cli.progress import counting
    from opboost_ops.datasets import load
    from opboost_ops.evaluation import month as experiment

    with tempfile.TemporaryDirectory() as folder, counting("nights") as progress:
        table = load(dataset, rows=rows)
        found = experiment.month(table, Path(folder) / "month", nights, fitting, progress)
    if picture is not None:
        experiment.draw(found, picture)
    if as_json:
        print(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"{found['party']}.{found['feature']}, budget {found['budget_whole']:g}")
    for head in ("night", "releases", "loss(R-L)", "left", "cells at cap", "bytes", "refused"):
        shown.add_column(head, justify="right")
    for line in found["nights"]:
        shown.add_row(
            str(line["night"]),
            str(line["releases"]),
            f"{line['loss_whole']:.3f}",
            str(line["retrainings_left"]),
            str(line["capped_cells"]),
            f"{sum(line['files'].values()):,}",
            "yes" if line["refused"] else "",
        )
    Console().print(shown)
