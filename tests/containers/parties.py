"""A federation of three parties as `opboost compose` writes it: its files, keys and homes."""

import os
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.orchestration.compose import write_compose
from tests.deployments import PARTIES, write_deployment

#: The user of the first party's container, in the order of the parties' names.
FIRST = 10011


def prepare(root: Path, rows: int, training: Mapping[str, object]) -> Path:
    """Write a deployment, as docs/containers.md says, with each party's site; its compose file."""
    federations = write_deployment(root, "/exchange", rows, training=training)
    made = write_compose(next(federations.iterdir()), root / "compose")
    for number, party in enumerate(PARTIES, FIRST):
        home = made.file.parent / "parties" / party
        home.rmdir()
        (root / "homes" / party).rename(home)
        own(home, number)
    return made.file


def own(folder: Path, user: int) -> None:
    """Give a folder and all in it to a user of a container, and to nobody else."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o700 if path.is_dir() else 0o600)
