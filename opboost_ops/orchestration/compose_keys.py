"""Passwords and keys of containers: a file for each secret that a compose file names."""

import hashlib
import json
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from opboost_ops.exchange.key_files import write_private

#: The coordinator's user of PostgreSQL and Redis.
USER = "coordinator"

#: Users of the containers of Airflow and of the servers.
_COORDINATOR, _SERVER = 10001, 999

#: What a party's worker may do with its queue. It may neither list keys nor listen to channels: IDs
#: under which the results of other parties lie cannot be guessed.
_WORKER_COMMANDS = (
    "-@all +@read +@write +@connection +@transaction +@scripting +publish "
    "-@dangerous -@admin -keys -scan -randomkey -dbsize -flushall -flushdb -swapdb -migrate"
)


@dataclass(frozen=True)
class Member:
    """A party with a worker container.

    Attributes:
        name: The party's.
        user: The number of its container's user.
        queues: From which its worker takes tasks.
    """

    name: str
    user: int
    queues: tuple[str, ...]


def write_keys(folder: Path, members: Collection[Member]) -> None:
    """Make every secret that the containers need and that is not there yet.

    Made as root, each file belongs to the user of the containers that read it.

    Args:
        folder: Made if it is absent.
        members: The parties.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database = _kept(folder, "database.password", _SERVER, _password())
    url = f"postgresql+psycopg://{USER}:{database}@postgres:5432/postgres"
    _kept(folder, "database.url", _COORDINATOR, url)
    fernet = urlsafe_b64encode(secrets.token_bytes(32)).decode()
    _kept(folder, "fernet", _COORDINATOR, fernet)
    for name in ("pages", "tokens"):
        _kept(folder, name, _COORDINATOR, _password())
    _kept(folder, "passwords.json", _COORDINATOR, json.dumps({"admin": _password()}))
    broker = _kept(folder, "coordinator-broker.url", _COORDINATOR, _broker_url(USER))
    redis = [_redis_user(USER, broker, "~* &* +@all")]
    for one in members:
        url = _kept(folder, f"{one.name}-broker.url", one.user, _broker_url(one.name))
        redis.append(_redis_user(one.name, url, _rights(one.name, one.queues)))
    settings = ["bind 0.0.0.0", "port 6379", "dir /data", "daemonize no", "appendonly yes"]
    settings += ['save ""', "user default off", "protected-mode no", *redis]
    (folder / "redis.conf").unlink(missing_ok=True)
    _kept(folder, "redis.conf", _SERVER, "\n".join(settings) + "\n")


def is_key(queue: str) -> bool:
    """Whether a queue has the name of a key that a worker or the coordinator has in the broker.

    Args:
        queue: A party's queue.
    """
    return queue.startswith("celery-task-meta-") or ".unacked" in queue


def _kept(folder: Path, name: str, owner: int, content: str) -> str:
    """A secret that is there, or else this one, written for its owner alone."""
    path = folder / name
    if path.exists():
        return path.read_text()
    write_private(path, content.encode())
    if os.geteuid() == 0:
        os.chown(path, owner, owner)
    return content


def _password() -> str:
    return secrets.token_urlsafe(24)


def _broker_url(user: str) -> str:
    return f"redis://{user}:{_password()}@redis:6379/0"


def _redis_user(user: str, url: str, rights: str) -> str:
    password = url.partition("@")[0].rpartition(":")[2]
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
