"""`opboost policy`: a party's own file of what it allows."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="What a party allows.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("pin")
def pin(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
    federation: Annotated[Path, typer.Argument(help="The federation.yaml that repeats the UUIDs.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line on stdout.")] = False,
) -> None:
    """Pin the UUID of each column that the policy allows; the rest of the file stays as it is."""
    import json

    from opboost_ops.cli.column_pins import pin_columns
    from opboost_ops.config.loading import POLICY, load_federation

    pinned = pin_columns(site, load_federation(federation))
    if as_json:
        print(json.dumps({"pinned": {name: str(uuid) for name, uuid in pinned.items()}}))
        return
    for name, uuid in pinned.items():
        print(f"{name}: column {uuid} is pinned now in {POLICY}.")
    if not pinned:
        print(f"All columns are pinned already in {POLICY}.")
