"""`opboost sites`: keys and maps for outbound-only sites."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Make keys and maps for outbound-only sites.", no_args_is_help=True)


@app.command("keys")
def keys(
    parties: Annotated[list[str], typer.Argument(help="Parties, as federation files name them.")],
    out: Annotated[Path, typer.Option(help="Folder of authority, coordinator and parties.")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address of the proxy, for its certificate; may be repeated."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long certificates are valid.")] = 397,
) -> None:
    """Make the coordinator's keys and a client certificate for each party."""
    from opboost_ops.orchestration.sites.keys import write_sites

    for folder in write_sites(out, parties, host or (), days):
        print(folder)


@app.command("maps")
def maps(
    federations: Annotated[Path, typer.Argument(help="Folder of federation files.")],
    out: Annotated[Path, typer.Option(help="Folder that the proxy reads.")],
) -> None:
    """Write the proxy's maps from queues and tasks to parties."""
    from opboost_ops.orchestration.sites.maps import write_maps

    for queue, party in sorted(write_maps(federations, out).items()):
        print(f"{queue}: {party}")
