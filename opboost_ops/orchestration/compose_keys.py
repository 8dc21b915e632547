"""Passwords and keys for `docker/compose.yaml`: a file for each secret of a container."""

import hashlib
import json
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Collection
from pathlib import Path

from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.key_files import write_private

#: The coordinator's user of PostgreSQL and Redis.
USER = "coordinator"

#: Users of the containers; those of the parties follow from the first, in the order of their names.
_COORDINATOR, _SERVER, _FIRST_PARTY = 10001, 999, 10011

#: What a party's worker may do with its queue. It may neither list keys nor listen to channels: IDs
#: under which the results of other parties lie cannot be guessed.
_WORKER_COMMANDS = (
    "-@all +@read +@write +@connection +@transaction +@scripting +publish "
    "-@dangerous -@admin -keys -scan -randomkey -dbsize -flushall -flushdb -swapdb -migrate"
)


def write_keys(folder: Path, federations: Path) -> list[Path]:
    """Make every secret that the containers need.

    Args:
        folder: Made if it is absent.
        federations: Folder of the federation files, which name parties and queues.

    Returns:
        The files; made as root, each belongs to the user of the containers that read it.

    Raises:
        ConfigError: The folder is not empty, or there is no valid federation file.
    """
    queues: dict[str, set[str]] = {}
    for path in sorted(federations.glob("*.yaml")):
        for name, spec in load_federation(path).parties.items():
            queues.setdefault(name, set()).add(spec.queue)
    if not queues:
        raise ConfigError(f"There is no federation file in {federations}.", "Write one first.")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} is not empty.", "Keys are never replaced: remove it, or name another."
        )
    database, broker = _password(), _password()
    redis, files = [_redis_user(USER, broker, "~* &* +@all")], {}
    for number, party in enumerate(sorted(queues), _FIRST_PARTY):
        password = _password()
        redis.append(_redis_user(party, password, _rights(party, queues[party])))
        files[f"{party}-broker.url"] = (_broker_url(party, password), number)
    settings = ["bind 0.0.0.0", "port 6379", "dir /data", "daemonize no", "appendonly yes"]
    settings += ['save ""', "user default off", "protected-mode no", *redis]
    fernet = urlsafe_b64encode(secrets.token_bytes(32)).decode()
    files |= {
        "coordinator-broker.url": (_broker_url(USER, broker), _COORDINATOR),
        "database.password": (database, _SERVER),
        "database.url": (
            f"postgresql+psycopg://{USER}:{database}@postgres:5432/postgres",
            _COORDINATOR,
        ),
        "fernet": (fernet, _COORDINATOR),
        "pages": (_password(), _COORDINATOR),
        "passwords.json": (json.dumps({"admin": _password()}), _COORDINATOR),
        "redis.conf": ("\n".join(settings) + "\n", _SERVER),
        "tokens": (_password(), _COORDINATOR),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (content, owner) in files.items():
        write_private(folder / name, content.encode())
        if os.geteuid() == 0:
            os.chown(folder / name, owner, owner)
    return [folder / name for name in sorted(files)]


def _password() -> str:
    return secrets.token_urlsafe(24)


def _broker_url(user: str, password: str) -> str:
    return f"redis://{user}:{password}@redis:6379/0"


def _redis_user(user: str, password: str, rights: str) -> str:
    # Redis knows the digest alone.
    return f"user {user} on #{hashlib.sha256(password.encode()).hexdigest()} {rights}"


def _rights(party: str, queues: Collection[str]) -> str:
    """Its own queues, what its worker has taken from them, and results by their ID."""
    patterns = [f"{party}.unacked", f"{party}.unacked_index", f"{party}.unacked_mutex"]
    for queue in sorted(queues):
        # A queue is a list for each priority; its name has a separator of two control characters.
        patterns += [queue, f"{queue}\\x06\\x16*"]
        patterns += [f"_kombu.binding.{queue}", f"_kombu.binding_permanent.{queue}"]
    keys = " ".join(f'"~{pattern}"' for pattern in (*patterns, "celery-task-meta-*"))
    channels = "resetchannels &celery-task-meta-* &/0.celeryev/worker.*"
    return f"{keys} {channels} {_WORKER_COMMANDS}"
