"""`opboost evaluate federboost`."""

from collections.abc import Sequence

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 5,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """What buckets and their noise cost: FederBoost's vertical AUC and its Figure 3.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import federboost as experiment

    tables: Sequence[str] = experiment.DATASETS
    buckets: Sequence[int] = experiment.BUCKETS
    epsilons: Sequence[float] = experiment.EPSILONS
    if quick:
        seeds, tables, buckets, epsilons = 1, (experiment.MADE_UP,), (16,), (1.0, 4.0)
    with counting("measurements") as progress:
        found = experiment.experiment(tables, seeds, work, progress, buckets, epsilons)
    given = "--quick" if quick else f"--seeds {seeds}"
    found |= {"command": f"opboost evaluate federboost {given}", "quick": quick}
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="AUC in points, tested on unrandomised rows")
    heads = ("dataset", "edges", "buckets", "epsilon", "redrawn", "seeds", "AUC", "spread", "loss")
    for head in heads:
        shown.add_column(head)
    for line in found["rows"]:
        shown.add_row(
            line["dataset"],
            line["edges"].replace("_", " "),
            str(line["buckets"] or ""),
            f"{line['epsilon']:g}" if line["epsilon"] else "",
            "yes" if line["redrawn"] else "",
            str(line["seeds"]),
            f"{line['auc']:.2f}",
            f"{line['auc_sd']:.2f}",
            f"{line['loss']:.2f}",
        )
    console = Console()
    console.print(shown)
    console.print("Edges of equal counts are read off the tables: they carry no guarantee.")
