"""`opboost evaluate horizontal-audit`."""

from typing import Annotated

import typer

from opboost_ops.lab.commands.options import Json, Summary, printed


def command(
    runs: Annotated[
        int, typer.Option(min=100, help="Sessions with the row, and without.")
    ] = 10_000,
    parties: Annotated[int, typer.Option(min=3, max=32, help="n.")] = 4,
    remain: Annotated[int, typer.Option(min=3, max=32, help="t; n - t drop out.")] = 3,
    colluding: Annotated[int, typer.Option(min=1, help="kappa.")] = 1,
    epsilon: Annotated[float, typer.Option(min=0.01, help="As declared.")] = 1.0,
    summary: Summary = None,
    as_json: Json = False,
) -> None:
    """Audit private horizontal sessions: a lower bound on what one row may cost, beside epsilon.

    It ends with 1 if the bound is above what is declared.
    """
    from opboost_ops.cli.progress import counting
    from opboost_ops.errors import ConfigError
    from opboost_ops.lab.horizontal_audit import Setting, audit

    if not colluding < remain <= parties or (
        remain < parties and 2 * remain <= parties + colluding
    ):
        raise ConfigError(
            f"({parties}, {remain}, {colluding}) is no setting in which parties may drop out.",
            "remain is above colluding and above (parties + colluding) / 2.",
        )
    with counting("sessions") as progress:
        found = audit(Setting(parties, remain, colluding, epsilon), runs, runs // 4, progress)
    options = f"--runs {runs}"
    for name, given, usual in (
        ("parties", parties, 4),
        ("remain", remain, 3),
        ("colluding", colluding, 1),
        ("epsilon", epsilon, 1.0),
    ):
        options += f" --{name} {given:g}" if given != usual else ""
    named = {"name": "horizontal-audit", "command": f"opboost evaluate horizontal-audit {options}"}
    if not printed({**named, **found}, summary, as_json):
        from rich.console import Console

        Console().print(
            f"{runs:,} sessions with the row and as many without: it was said to be there in "
            f"{found['said_when_there']:,} and {found['said_when_not']:,}. Epsilon is at least "
            f"{found['lower_bound']:.3f} with 95 % confidence; declared is {found['epsilon']:.3f} "
            f"at delta {found['delta']:g}.",
            soft_wrap=True,
        )
    if found["lower_bound"] > found["epsilon"]:
        raise typer.Exit(1)
