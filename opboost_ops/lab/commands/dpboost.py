"""`opboost evaluate dpboost`."""

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 5,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """What privacy of the model costs: DPBoost's figures, its filter, and its time a tree.

    An interrupted run goes on where it was: measurements are kept one by one.
    """
    import tempfile
    from pathlib import Path

    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import dpboost as experiment

    with tempfile.TemporaryDirectory() as folder, counting("measurements") as progress:
        seeds = 2 if quick else seeds
        found = experiment.experiment(seeds, Path(folder) if quick else work, quick, progress)
    if printed(found, summary, as_json):
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="Share of wrong classes, or root mean squared error")
    for head in ("dataset", "trained by", "epsilon", "seeds", "error", "spread", "sat out"):
        shown.add_column(head)
    for line in found["rows"]:
        shown.add_row(
            line["dataset"],
            experiment.NAMES[line["method"]],
            f"{line['epsilon']:g}" if line["epsilon"] else "",
            str(line["seeds"]),
            f"{line['error']:.4f}",
            f"{line['error_sd']:.4f}",
            f"{line['filtered']:.2%}",
        )
    console = Console()
    console.print(shown)
    taken = found["time"]
    console.print(
        f"A tree of {taken['dataset']} takes {taken['dpboost']:.4f} s of processor time, by plain "
        f"LightGBM {taken['plain']:.4f} s: {taken['times']:g} times."
    )
