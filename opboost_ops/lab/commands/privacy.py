"""`opboost evaluate privacy`."""

from typing import Annotated

import typer

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 5,
    quick: Quick = False,
    dataset: Annotated[list[str] | None, typer.Option(help="Only these tables.")] = None,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """How many cells attackers place, beside what is left of accuracy, for every mechanism.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import accuracy
    from opboost_ops.lab import privacy as experiment

    tables = tuple(dataset or experiment.DATASETS)
    epsilons: tuple[float, ...] = experiment.EPSILONS
    if quick:
        seeds, epsilons = 1, (0.08, 1.28)
        tables = tuple(dataset or ("powerplant",))
    with counting("measurements") as progress:
        found = experiment.experiment(tables, epsilons, seeds, work, progress)
    # Not the words as typed: they may name folders of one's own.
    asked = [f"--seeds {seeds}", *(f"--dataset {name}" for name in dataset or ())]
    asked += ["--quick"] * quick
    found |= {"command": " ".join(["opboost evaluate privacy", *asked]), "quick": quick}
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Share of cells guessed right, and accuracy as a share of no protection")
    for head in ("dataset", "method", "epsilon", "guess", "nothing seen", "ratio", "spread"):
        shown.add_column(head)
    for line in found["rows"]:
        if line["guess"] is not None:
            shown.add_row(
                line["dataset"],
                accuracy.name_of(line),
                f"{line['epsilon']:g}",
                f"{line['guess']:.4f}",
                f"{line['baseline']:.4f}",
                f"{line['ratio']:.4f}",
                f"{line['ratio_sd']:.4f}",
            )
    Console().print(shown)
