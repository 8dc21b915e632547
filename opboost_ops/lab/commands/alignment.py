"""`opboost evaluate alignment`."""

import json
from typing import Annotated, Any

import typer


def command(
    people: Annotated[int, typer.Option(help="Rows of each party's table.")] = 20_000,
    parties: Annotated[int, typer.Option(help="The label holder among them.")] = 3,
    processes: Annotated[int, typer.Option(help="That multiply points, at each party.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """What finding the common people costs, private and keyed; and a dictionary attack on both."""
    from rich.console import Console
    from rich.table import Table

    from opboost_ops.lab import alignment as experiment

    console = Console(stderr=True)
    with console.status("") as status:
        found = experiment.measure(people, parties, processes, progress=status.update)
    if as_json:
        print(json.dumps(found))
        return
    shown = Table(title=f"{parties} parties of {people:,} people, {processes} processes each")
    for head in ("alignment", "party", "stage", "processor s", "wall s", "peak MiB"):
        shown.add_column(head)
    for way, facts in found["ways"].items():
        for role, stages in facts["stages"].items():
            for stage, told in stages.items():
                shown.add_row(way, role.replace("_", " "), stage, f"{told['processor']:.2f}",
                              f"{told['seconds']:.2f}", f"{told['peak_mib']:.0f}")  # fmt: skip
    output = Console()
    output.print(shown)
    for line in _sentences(found):
        output.print(line, soft_wrap=True)


def _sentences(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{way}: a feature holder {facts['feature_holder']['processor_a_million']:.1f} s of "
        f"processor a million people, the label holder "
        f"{facts['label_holder']['processor_a_million']:.1f} s; "
        f"{facts['bytes_of_a_feature_holder_a_person']:.1f} bytes a person and feature holder."
        for way, facts in found["ways"].items()
    ]
    attack = found["dictionary"]
    return [
        *lines,
        f"A dictionary of {attack['guesses']:,} IDs against the digests, by whoever receives them, "
        f"finds of the customers: keyed {attack['keyed']:.0%}, private {attack['private']:.0%}; "
        f"private after a query about a tenth of them "
        f"{attack['private_asked_about_a_tenth']:.0%}.",
    ]
