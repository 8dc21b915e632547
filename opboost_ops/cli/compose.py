"""`opboost compose`: a worker container for each party of a federation."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    federation: Annotated[Path, typer.Argument(help="The federation file.")],
    out: Annotated[Path, typer.Option(help="The deployment's folder, new or existing.")] = Path(
        "compose"
    ),
) -> None:
    """Write a compose file with a worker container for each party, and its secrets."""
    from opboost_ops.orchestration.compose import podman_faults, write_compose

    made = write_compose(federation, out)
    print(f"{made.file}: {', '.join(made.federations)}")
    for member in made.members:
        print(f"  {out / 'parties' / member.name}: the site of {member.name}, user {member.user}")
    for fault in podman_faults():
        typer.secho(f"Warning: {fault}", fg="yellow", err=True)
    print("Put each party's files there, then start it: see docs/containers.md.")
