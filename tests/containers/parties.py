"""A federation of three parties for `docker/compose.yaml`: its files, keys and homes."""

import os
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.orchestration.compose_keys import write_keys
from tests.deployments import PARTIES, write_deployment

#: The user of the first party's container, in the order of the parties' names.
FIRST = 10011


def prepare(root: Path, rows: int, training: Mapping[str, object]) -> dict[str, Path]:
    """Write what lies beside the compose file, as docs/containers.md says; its variables."""
    federations = write_deployment(root, "/exchange", rows, training=training)
    write_keys(root / "keys", federations)
    for number, party in enumerate(PARTIES, FIRST):
        own(root / "homes" / party, number)
    homes = {party.upper(): root / "homes" / party for party in PARTIES}
    return {"KEYS": root / "keys", "FEDERATIONS": federations, **homes}


def own(folder: Path, user: int) -> None:
    """Give a folder and all in it to a user of a container, and to nobody else."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o700 if path.is_dir() else 0o600)
