"""Passwords and keys for `docker/compose.yaml`: a file for each secret of a container."""

import json
import os
from pathlib import Path

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.parties.federations import queues
from opboost_ops.orchestration.parties.places import write
from opboost_ops.orchestration.parties.records import new_secrets
from opboost_ops.orchestration.parties.servers import USER, broker_settings

#: The users of the containers; the parties' are numbered on, in the order of their names.
_COORDINATOR, _SERVER, _FIRST_PARTY = 10001, 999, 10011


def write_keys(folder: Path, federations: Path) -> list[Path]:
    """Make everything that the containers are given as secrets.

    Args:
        folder: Where; it is made.
        federations: The federation files, which name parties and queues.

    Returns:
        The files; as root each belongs to the user of the containers that read it.

    Raises:
        ConfigError: Something lies there already, or there is no federation file.
    """
    of = queues(federations)
    if not of:
        raise ConfigError(f"There is no federation file in {federations}.", "Write one first.")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is not empty.", "Keys are never replaced: remove it, or name another."
        )
    folder.mkdir(parents=True, exist_ok=True)
    secrets = new_secrets(sorted(of))
    database = f"postgresql+psycopg://{USER}:{secrets.database}@postgres:5432/postgres"
    redis = broker_settings(Path("/data"), "0.0.0.0", 6379, secrets, of)  # noqa: S104
    files = {
        "coordinator-broker.url": (_broker(USER, secrets.broker), _COORDINATOR),
        "database.password": (secrets.database, _SERVER),
        "database.url": (database, _COORDINATOR),
        "fernet": (secrets.fernet, _COORDINATOR),
        "pages": (secrets.pages, _COORDINATOR),
        "passwords.json": (json.dumps({"admin": secrets.admin}), _COORDINATOR),
        "redis.conf": (redis, _SERVER),
        "tokens": (secrets.tokens, _COORDINATOR),
    }
    for number, party in enumerate(sorted(of), _FIRST_PARTY):
        files[f"{party}-broker.url"] = (_broker(party, secrets.redis[party]), number)
    root = os.geteuid() == 0
    for name, (content, uid) in files.items():
        owner = uid if root else os.getuid()
        write(folder / name, content, 0o600, owner, owner if root else os.getgid())
    return [folder / name for name in sorted(files)]


def _broker(user: str, password: str) -> str:
    return f"redis://{user}:{password}@redis:6379/0"
