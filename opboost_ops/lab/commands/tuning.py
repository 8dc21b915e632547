"""`opboost evaluate tuning`."""

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 3,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """Tuned beside default parameters, by table, epsilon and mode of scoring."""
    from opboost_ops.cli.printing import table
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import tuning as experiment

    tables: tuple[str, ...] = experiment.DATASETS
    epsilons: tuple[float, ...] = experiment.EPSILONS
    trials, rows = experiment.TRIALS, experiment.ROWS
    if quick:
        seeds, tables, epsilons, trials, rows = 1, ("powerplant",), (1.28,), 4, 1_000
    with counting("measurements") as progress:
        found = experiment.experiment(
            work,
            progress,
            datasets=tables,
            epsilons=epsilons,
            seeds=seeds,
            trials=trials,
            rows=rows,
        )
    found["quick"] = quick
    found["command"] = f"opboost evaluate tuning --seeds {seeds}" + " --quick" * quick
    if printed(found, summary, as_json):
        return
    from rich.console import Console

    heads = ("dataset", "epsilon", "mode", "default", "tuned", "gain")
    shown = table("AUC or R2 of held-out rows", *heads)
    for line in found["rows"]:
        figures = (f"{line[name]:.4f}" for name in ("default", "tuned", "gain"))
        shown.add_row(line["dataset"], f"{line['epsilon']:g}", line["mode"], *figures)
    Console().print(shown)
