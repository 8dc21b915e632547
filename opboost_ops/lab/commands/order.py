"""`opboost evaluate order`."""

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 10,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """What is left of the order of real columns: weighted Kendall, gamma and beta by epsilon.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import order as experiment
    from opboost_ops.lab.settings import name_of

    with counting("measurements") as progress:
        if quick:
            found = experiment.experiment(
                work,
                progress,
                columns=experiment.GENERATED,
                domains=(10,),
                epsilons=(0.64,),
                equal={"loss_whole": (2.0,)},
                seeds=2,
            )
        else:
            found = experiment.experiment(work, progress, seeds=seeds)
    asked = "--quick" if quick else f"--seeds {seeds}"
    found |= {"quick": quick, "command": f"opboost evaluate order {asked}"}
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Weighted Kendall coefficient, mean over columns")
    for head in ("domain", "method", "epsilon", "seeds", "measured", "expected", "least gamma"):
        shown.add_column(head)
    for line in found["rows"]:
        means = [sum(line[k].values()) / len(line[k]) for k in ("kendall", "expected")]
        shown.add_row(
            f"[{found['lower']}, {line['upper']}]",
            name_of(line),
            f"{line['epsilon']:g}",
            str(line["seeds"]),
            *(f"{mean:.4f}" for mean in means),
            f"{line['beta_least']:.4f}",
        )
    Console().print(shown)
