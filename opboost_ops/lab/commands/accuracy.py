"""`opboost evaluate accuracy`."""

from typing import Annotated

import typer

from opboost_ops.errors import ConfigError
from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 10,
    quick: Quick = False,
    dataset: Annotated[list[str] | None, typer.Option(help="Only these tables.")] = None,
    booster: Annotated[str, typer.Option(help="lightgbm, xgboost or both.")] = "lightgbm",
    scale: Annotated[
        list[str] | None, typer.Option(help="Only this map: linear or quantile.")
    ] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="Only these of Adj-map.")] = None,
    curves: Annotated[bool, typer.Option(help="All epsilons of the figures.")] = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """What protection leaves of accuracy: the workload of OpBoost's Table 6 and its figures.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import accuracy as experiment

    if booster not in experiment.TRAINERS:
        raise ConfigError(f"There is no booster {booster}.", "lightgbm, xgboost or both.")
    for name in scale or ():
        if name not in experiment.SCALES:
            raise ConfigError(f"There is no map {name}.", "linear or quantile.")
    trainers = experiment.TRAINERS[booster]
    scales = tuple(scale or experiment.SCALES)
    tables = tuple(dataset or experiment.DATASETS)
    epsilons: tuple[float, ...] = experiment.TABLE_EPSILONS
    alphas = tuple(alpha or experiment.ALPHAS)
    if curves:
        epsilons = experiment.EPSILONS
    if quick:
        seeds, tables, epsilons, alphas = 1, ("powerplant", "pendigits"), (1.28,), (2.0,)
    with counting("measurements") as progress:
        found = experiment.experiment(
            tables, epsilons, seeds, work, progress, alphas, trainers, scales
        )
    chosen = [("booster", [booster]), ("dataset", dataset), ("scale", scale), ("alpha", alpha)]
    more = [f"--{name} {value}" for name, values in chosen for value in values or ()]
    more += ["--curves"] * curves + ["--quick"] * quick
    found["command"] = " ".join(["opboost evaluate accuracy", f"--seeds {seeds}", *more])
    if printed(found, summary, as_json):
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
