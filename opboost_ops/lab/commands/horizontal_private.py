"""`opboost evaluate horizontal-private`."""

from opboost_ops.lab.commands.options import WORK, Json, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 5, work: Work = WORK, summary: Summary = None, as_json: Json = False
) -> None:
    """What a guarantee costs in horizontal learning, on two public tables.

    An interrupted run measures only what is missing.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import horizontal
    from opboost_ops.lab import horizontal_private as experiment

    with counting("measurements") as progress:
        rows = experiment.accuracy(horizontal.DATASETS, seeds, work, progress)
    found = {
        "name": "horizontal-private",
        "command": f"opboost evaluate horizontal-private --seeds {seeds}",
        **experiment.settings_told(),
        "rows": rows,
    }
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="AUC in percent on a held-out third")
    for head in ("dataset", "method", "parties", "epsilon", "seeds", "AUC"):
        shown.add_column(head)
    for line in rows:
        epsilon = f"{line['epsilon']:g}" if line["epsilon"] else ""
        names = (line["dataset"], line["method"], str(line["parties"]), epsilon)
        shown.add_row(*names, str(line["seeds"]), f"{line['auc']:.2f} \u00b1 {line['auc_sd']:.2f}")
    Console().print(shown)
