"""PostgreSQL and Redis of the topology's own, from Debian's packages: never the system's."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.parties.places import Places, make, write
from opboost_ops.orchestration.parties.records import Secrets, State
from opboost_ops.orchestration.parties.users import Account

#: The user of both servers that is the coordinator.
USER = "coordinator"

#: What a party's worker does with its queue. Nothing lists keys or listens to channels: the ids
#: under which results of other parties lie cannot be guessed.
_PARTY_MAY = (
    "-@all +@read +@write +@connection +@transaction +@scripting +publish "
    "-@dangerous -@admin -keys -scan -randomkey -dbsize -flushall -flushdb -swapdb -migrate"
)


def check_packages() -> None:
    """Make sure that Debian's packages are there.

    Raises:
        ConfigError: It names those that are missing.
    """
    found = {
        "postgresql": _postgres_folder() is not None,
        "redis-server": shutil.which("redis-server") is not None,
        "redis-tools": shutil.which("redis-cli") is not None,
        "python3": Path("/usr/bin/python3").exists(),
    }
    missing = [name for name, there in found.items() if not there]
    if missing:
        raise ConfigError(
            f"Packages are missing: {', '.join(missing)}.",
            f"Install them: apt-get install {' '.join(missing)} python3-venv.",
        )


def prepare_database(places: Places, account: Account, secrets: Secrets) -> None:
    """Make the cluster, if it is not there."""
    data = places.coordinator / "postgres"
    if (data / "PG_VERSION").exists():
        return
    shutil.rmtree(data, ignore_errors=True)
    password = places.coordinator / "postgres.password"
    write(password, secrets.database, 0o600, account.uid, account.gid)
    done = subprocess.run(
        [
            str(_postgres("initdb")),
            *("--auth", "scram-sha-256", "--username", USER, "--pwfile", str(password)),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--pgdata", str(data)),
        ],
        user=account.uid,
        group=account.gid,
        extra_groups=[],
        cwd=places.coordinator,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    password.unlink()
    if done.returncode:
        raise ConfigError(f"PostgreSQL's cluster was not made: {done.stderr.strip()}")


def database_command(places: Places, state: State) -> list[str]:
    """How PostgreSQL is started."""
    return [
        str(_postgres("postgres")),
        *("-D", str(places.coordinator / "postgres"), "-p", str(state.ports.database)),
        *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
        *("-c", "max_connections=200"),
    ]


def database_answers(state: State) -> bool:
    """Whether PostgreSQL accepts connections."""
    command = [str(_postgres("pg_isready")), "-q", "-h", "127.0.0.1"]
    done = subprocess.run([*command, "-p", str(state.ports.database)], check=False)
    return done.returncode == 0


def database_url(state: State, secrets: Secrets) -> str:
    """How the coordinator reaches PostgreSQL."""
    address = f"127.0.0.1:{state.ports.database}"
    return f"postgresql+psycopg://{USER}:{secrets.database}@{address}/postgres"


def prepare_broker(
    places: Places, account: Account, secrets: Secrets, state: State, queues: Mapping[str, set[str]]
) -> None:
    """Write Redis's settings: each party may touch its own queues, and write results.

    Args:
        places: Where.
        account: The coordinator.
        secrets: Everybody's passwords.
        state: With the port.
        queues: Of each party.
    """
    folder = make(places.coordinator / "redis", 0o700, account.uid, account.gid)
    text = broker_settings(folder, "127.0.0.1", state.ports.broker, secrets, queues)
    write(folder / "redis.conf", text, 0o600, account.uid, account.gid)


def broker_settings(
    folder: Path, address: str, port: int, secrets: Secrets, queues: Mapping[str, set[str]]
) -> str:
    """The text of Redis's settings.

    Args:
        folder: For what it keeps.
        address: Where it listens.
        port: Where it listens.
        secrets: Everybody's passwords.
        queues: Of each party.
    """
    lines = [
        f"bind {address}",
        f"port {port}",
        f"dir {folder}",
        "daemonize no",
        "appendonly yes",
        'save ""',
        # Everybody has a name and a password.
        "user default off",
        "protected-mode no",
        f"user {USER} on #{_hashed(secrets.broker)} ~* &* +@all",
    ]
    for party, own in queues.items():
        patterns = [p for queue in sorted(own) for p in _keys(party, queue)]
        shown = " ".join(f'"~{pattern}"' for pattern in patterns)
        lines.append(
            f"user {party} on #{_hashed(secrets.redis[party])} {shown} resetchannels "
            f"&celery-task-meta-* &/0.celeryev/worker.* {_PARTY_MAY}"
        )
    return "\n".join(lines) + "\n"


def broker_command(places: Places) -> list[str]:
    """How Redis is started."""
    found = shutil.which("redis-server")
    assert found is not None
    return [found, str(places.coordinator / "redis" / "redis.conf")]


def ask_broker(state: State, secrets: Secrets, *command: str) -> str:
    """What Redis answers to the coordinator; empty if it does not.

    Args:
        state: With the port.
        secrets: With the password.
        command: Of Redis.
    """
    tool = ["redis-cli", "-h", "127.0.0.1", "-p", str(state.ports.broker), "--user", USER]
    done = subprocess.run(
        [*tool, *command],
        env={"PATH": os.defpath, "REDISCLI_AUTH": secrets.broker},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def awaits_tasks(state: State, secrets: Secrets, party: str) -> bool:
    """Whether a party's worker waits for tasks of its queue.

    Args:
        state: With the port.
        secrets: With the password.
        party: Whose.
    """
    clients = ask_broker(state, secrets, "CLIENT", "LIST").splitlines()
    return any(f" user={party} " in line and "cmd=brpop" in line for line in clients)


def broker_url(state: State, user: str, password: str) -> str:
    """How somebody reaches Redis."""
    return f"redis://{user}:{password}@127.0.0.1:{state.ports.broker}/0"


def unacknowledged(party: str) -> dict[str, str]:
    """Names of the keys under which a worker keeps what it has taken and not yet done.

    By default all workers share them, and each could read what the others have taken.
    """
    return {
        "unacked_key": f"{party}.unacked",
        "unacked_index_key": f"{party}.unacked_index",
        "unacked_mutex_key": f"{party}.unacked_mutex",
    }


def _keys(party: str, queue: str) -> list[str]:
    # A queue is a list for each priority, whose names have a separator of two control characters.
    return [
        queue,
        f"{queue}\\x06\\x16*",
        f"_kombu.binding.{queue}",
        f"_kombu.binding_permanent.{queue}",
        *unacknowledged(party).values(),
        "celery-task-meta-*",
    ]


def _hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()


def _postgres_folder() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _postgres(program: str) -> Path:
    folder = _postgres_folder()
    assert folder is not None
    return folder / program
