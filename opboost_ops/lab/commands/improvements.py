"""`opboost evaluate improvements`."""

from opboost_ops.lab.commands.options import WORK, Json, Quick, Seeds, Summary, Work, printed


def command(
    seeds: Seeds = 5,
    quick: Quick = False,
    work: Work = WORK,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """What knowing the channel does for accuracy: values drawn back, and a penalty on leaves."""
    from opboost_ops.cli.printing import table
    from opboost_ops.cli.progress import counting
    from opboost_ops.lab import improvements as experiment

    tables: tuple[str, ...] = experiment.DATASETS
    epsilons: tuple[float, ...] = experiment.TABLE_EPSILONS
    if quick:
        seeds, tables, epsilons = 1, ("powerplant",), (0.32,)
    with counting("measurements") as progress:
        found = experiment.experiment(tables, epsilons, seeds, work, progress)
    found["command"] = f"opboost evaluate improvements --seeds {seeds}" + " --quick" * quick
    if printed(found, summary, as_json):
        return
    from rich.console import Console

    heads = ("dataset", "map", "method", "epsilon", "variant", "plain", "value", "better in")
    shown = table("Accuracy, or mean squared error in regression, on clear rows", *heads)
    for line in found["rows"]:
        shown.add_row(
            line["dataset"],
            line["scale"],
            line["method"],
            f"{line['epsilon']:g}",
            line["variant"],
            f"{line['plain']:.4f}",
            f"{line['value']:.4f}",
            f"{line['better']} of {line['seeds']}",
        )
    Console().print(shown)
