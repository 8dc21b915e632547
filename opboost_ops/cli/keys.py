"""`opboost keys`: a party's secrets."""

from pathlib import Path
from typing import Annotated

import typer

from opboost_ops.errors import ConfigError

app = typer.Typer(help="A party's secrets.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Commands are always named, also while there is only one."""


@app.command("init")
def init(
    site: Annotated[Path, typer.Argument(help="Folder of the party's site.yaml.")],
    alignment: Annotated[
        bool, typer.Option(help="Also make the alignment key; one party does, and hands it on.")
    ] = False,
) -> None:
    """Make a noise secret and a signing key, and print the public key for the federation file."""
    import secrets

    from opboost_ops.datasets.workspace import write_keys, write_private

    folder = site / "keys"
    made = ["noise.secret", "signing.key", *(["alignment.key"] if alignment else [])]
    existing = [name for name in made if (folder / name).exists()]
    if existing:
        raise ConfigError(
            f"keys/{', keys/'.join(existing)} exist already; nothing was made.",
            "A new noise secret redraws all noise, which is another charged release.",
        )
    public = write_keys(folder)
    if alignment:
        write_private(folder / "alignment.key", secrets.token_bytes(32))
    print(public)
