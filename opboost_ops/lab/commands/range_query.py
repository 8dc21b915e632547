"""`opboost evaluate range-query`."""

from typing import Annotated

import typer

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 100,
    quick: Quick = False,
    epsilon: Annotated[list[float] | None, typer.Option(help="Only these.")] = None,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """How well a randomised column answers range queries: as it is, inverted, and by likelihood.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import range_query as experiment
    from opboost_ops.lab.settings import EPSILONS, name_of

    with counting("measurements") as progress:
        if quick:
            found = experiment.experiment(
                work,
                progress,
                tables=("normal",),
                size=32,
                epsilons=(0.64,),
                equal={"loss_whole": (8.0,)},
                repeats=10,
                queries=1000,
            )
        else:
            epsilons = tuple(epsilon or EPSILONS)
            found = experiment.experiment(work, progress, epsilons=epsilons, repeats=seeds)
    options = [f"--seeds {found['seeds']}", *(f"--epsilon {e:g}" for e in epsilon or ())]
    asked = "--quick" if quick else " ".join(options)
    found |= {"quick": quick, "command": f"opboost evaluate range-query {asked}"}
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Mean squared error of range queries, as shares of all rows")
    for head in ("table", "method", "epsilon", "loss(1)", "loss(R - L)", *experiment.FIGURES):
        shown.add_column(head)
    for line in [*found["rows"], *found["equal"]]:
        losses = (f"{float(line[loss]):.3g}" for loss in ("loss_1", "loss_whole"))
        errors = ("none" if line[f] is None else f"{line[f]:.3g}" for f in experiment.FIGURES)
        shown.add_row(line["table"], name_of(line), f"{line['epsilon']:g}", *losses, *errors)
    for line in found["ahead"]:
        numbers = (f"{line['epsilon']:g}", *3 * (f"{line['epsilon']:.3g}",))
        shown.add_row(line["table"], "AHEAD", *numbers[:3], f"{line['error']:.3g}", "", "")
    Console().print(shown)
