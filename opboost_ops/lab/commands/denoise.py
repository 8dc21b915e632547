"""`opboost evaluate denoise`."""

from typing import Annotated

import typer

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Names, parted by commas; NAME:N for its own number of seeds; all tables "
            "when absent."
        ),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Global-map's, parted by commas; five when absent.")
    ] = None,
    seeds: Seeds = 3,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """Denoising beside plain training, alone and centralised, by table, mechanism and epsilon."""
    from opboost_ops.cli.printing import table
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import denoise as experiment

    tables = tuple(dataset.split(",")) if dataset else experiment.DATASETS
    epsilons = tuple(map(float, epsilon.split(","))) if epsilon else experiment.EPSILONS
    if quick:
        seeds, tables, epsilons = 1, tables[:1], (0.32,)
    with counting("measurements") as progress:
        found = experiment.experiment(
            work, progress, datasets=tables, epsilons=epsilons, seeds=seeds
        )
    asked = f" --dataset {dataset}" * bool(dataset) + f" --epsilon {epsilon}" * bool(epsilon)
    found["command"] = f"opboost evaluate denoise{asked} --seeds {seeds}" + " --quick" * quick
    found["quick"] = quick
    if printed(found, summary, as_json):
        return
    from rich.console import Console

    heads = ("dataset", "mechanism", "epsilon", "loss(1)", "loss(R - L)", "plain", "joint", "gain")
    shown = table("AUC, accuracy or R2 on clear rows", *heads)
    for line in found["rows"]:
        figures = ("loss_1", "loss_whole", "plain", "joint", "joint_gain")
        named = (line["dataset"], line["mechanism"], f"{line['epsilon']:g}")
        shown.add_row(*named, *(f"{line[name]:.3f}" for name in figures))
    Console().print(shown)
