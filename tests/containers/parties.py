"""A federation of three parties, laid out beside the compose files: its files, keys and homes."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.containers.images import ROOT
from tests.deployments import PARTIES, write_deployment

DOCKER = ROOT / "docker"

#: The user of the first party's worker in docker/one-airflow, in the order of the parties' names.
FIRST = 10011

#: The user of all containers of Airflow in docker/party.
OWN_AIRFLOW = 10001


def one_airflow(root: Path, rows: int, training: Mapping[str, object]) -> Path:
    """Lay out docker/one-airflow; its compose file."""
    federations = write_deployment(root, "/exchange", rows, training=training)
    users = {party: FIRST + number for number, party in enumerate(PARTIES)}
    folder = _copied(root, "one-airflow", [f"{party}:{user}" for party, user in users.items()])
    federations.rename(folder / "federations")
    (folder / "parties").mkdir()
    for party, user in users.items():
        (root / "homes" / party).rename(folder / "parties" / party)
        own(folder / "parties" / party, user)
    return folder / "compose.yaml"


def own_airflows(root: Path, rows: int, training: Mapping[str, object]) -> dict[str, Path]:
    """Lay out docker/party for each party; their compose files."""
    federations = write_deployment(root, "/exchange", rows, training=training)
    files = {}
    for party in PARTIES:
        folder = _copied(root / party, "party", [])
        shutil.copytree(federations, folder / "federations")
        (root / "homes" / party).rename(folder / "party")
        own(folder / "party", OWN_AIRFLOW)
        (folder / "party.env").write_text(
            f"OPBOOST_PARTIES={party}\nOPBOOST_SITE_{party.upper()}=/site/site.yaml\n"
        )
        files[party] = folder / "compose.yaml"
    return files


def make_keys(folder: Path, parties: Sequence[str]) -> None:
    """Make the secrets of a compose file, as the documentation says."""
    subprocess.run([DOCKER / "make-keys", folder, *parties], check=True)


def own(folder: Path, user: int) -> None:
    """Give a folder and all in it to a user of a container, and to nobody else."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
        path.chmod(0o700 if path.is_dir() else 0o600)


def _copied(root: Path, name: str, parties: Sequence[str]) -> Path:
    shutil.copytree(DOCKER / "health", root / "health")
    folder = shutil.copytree(DOCKER / name, root / name)
    make_keys(folder / "keys", parties)
    return folder
