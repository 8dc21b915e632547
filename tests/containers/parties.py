"""A federation of three parties for `docker/compose.yaml`: its files, keys and homes."""

import os
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.orchestration.parties.container_keys import write_keys
from opboost_ops.orchestration.parties.federations import write_federations
from opboost_ops.orchestration.parties.places import Places

PARTIES = ("bank", "credit", "shop")

#: The user of the first party's container, in the order of the parties' names.
FIRST = 10011


def prepare(root: Path, rows: int, training: Mapping[str, object]) -> dict[str, Path]:
    """Write what lies beside the compose file, as docs/parties.md says; its variables."""
    places = Places(root)
    (root / "homes").mkdir(parents=True)
    write_federations(places, "credit", rows, 1, training, "/exchange")
    write_keys(root / "keys", places.federations)
    for number, party in enumerate(PARTIES, FIRST):
        own(places.home(party), number)
    homes = {party.upper(): places.home(party) for party in PARTIES}
    return {"KEYS": root / "keys", "FEDERATIONS": places.federations, **homes}


def own(folder: Path, user: int) -> None:
    """Give a folder and all in it to a user of a container, and to nobody else."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o700 if path.is_dir() else 0o600)
