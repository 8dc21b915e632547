"""`opboost evaluate federation`."""

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 3,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """Does federation pay? Whole runs beside training on everything, and alone."""
    from opboost_ops.cli.printing import table
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import federation as experiment

    cases: tuple[tuple[str, float, str], ...] = experiment.CASES
    if quick:
        seeds, cases = 1, (("credit", 1.28, "auc"),)
    with counting("runs") as progress:
        found = experiment.experiment(cases, seeds, work, progress)
    found["command"] = f"opboost evaluate federation --seeds {seeds}" + " --quick" * quick
    if printed(found, summary, as_json):
        return
    from rich.console import Console

    shown = table("Federation", "table", "epsilon", "metric", *experiment.MODES)
    for line in found["rows"]:
        modes = (f"{line[mode]:.4f}" for mode in experiment.MODES)
        shown.add_row(line["dataset"], f"{line['epsilon']:g}", line["metric"], *modes)
    Console().print(shown)
