"""`docker/compose.yaml.j2` for one's own parties: the folder of a deployment in containers."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.compose_keys import USER, Member, is_key, write_keys
from opboost_ops.resources import docker_folder

#: The user of the first party's container.
_FIRST = 10011

#: Where packages of `catatonit` put it.
_CATATONIT = ("/usr/libexec/podman/catatonit", "/usr/libexec/catatonit/catatonit")


@dataclass(frozen=True)
class Composed:
    """A folder that a compose program can start.

    Attributes:
        file: The compose file.
        members: The parties, by name.
        federations: Names of the federations.
    """

    file: Path
    members: tuple[Member, ...]
    federations: tuple[str, ...]


def write_compose(federation: Path, folder: Path) -> Composed:
    """Write a compose file, the secrets of its containers and a folder for each party.

    A folder that is there is extended: it keeps its secrets, the users of its parties and its
    other federations.

    Args:
        federation: A federation file; it is copied.
        folder: Made if it is absent.

    Returns:
        What the folder holds now.

    Raises:
        ConfigError: A file is at fault, two parties share a queue, or a name would give one of
            them the rights of another. Nothing was written.
    """
    new = load_federation(federation)
    found = {new.name: new}
    for path in sorted((folder / "federations").glob("*.yaml")):
        one = load_federation(path)
        found.setdefault(one.name, one)
    queues = _queues(found)
    users = _users(folder / "compose.yaml")
    free = max(users.values(), default=_FIRST - 1) + 1
    for party in sorted(set(queues) - set(users)):
        users[party], free = free, free + 1
    members = [Member(party, users[party], queues[party]) for party in sorted(queues)]
    for name in ("federations", "parties"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "federations" / f"{new.name}.yaml").write_bytes(federation.read_bytes())
    write_keys(folder / "keys", members)
    for member in members:
        _own(folder / "parties" / member.name, member.user)
    shutil.copytree(docker_folder() / "health", folder / "health", dirs_exist_ok=True)
    file = folder / "compose.yaml"
    # Last: without it nothing starts.
    file.write_text(_rendered(members))
    return Composed(file, tuple(members), tuple(sorted(found)))


def podman_faults() -> list[str]:
    """What Podman on this machine lacks for the compose file; nothing where it is not used.

    Its networks are internal, which CNI's plugin for names refuses, and each container has an
    init process, which Podman takes from `catatonit`.
    """
    if shutil.which("podman") is None:
        return []
    asked = ["podman", "info", "--format", "json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    try:
        backend = json.loads(done.stdout)["host"]["networkBackend"]
    except (ValueError, KeyError, TypeError):
        backend = ""
    faults = []
    if backend != "netavark":
        faults.append(
            f"Podman's network backend is {backend or 'unknown'}, and its internal networks need "
            'netavark: install netavark and aardvark-dns, and set `network_backend = "netavark"` '
            "under [network] in containers.conf."
        )
    if shutil.which("catatonit") is None and not any(map(os.path.exists, _CATATONIT)):
        faults.append("Podman lacks the init process of containers: install catatonit.")
    return faults


def _queues(found: Mapping[str, Federation]) -> dict[str, tuple[str, ...]]:
    """Each party's queues; a worker that took another party's tasks would have to fail them."""
    queues: dict[str, set[str]] = {}
    faults = []
    for federation in found.values():
        for party, spec in federation.parties.items():
            queues.setdefault(party, set()).add(spec.queue)
    for party, own in queues.items():
        others = {q for other, of in queues.items() if other != party for q in of}
        faults += [
            f"{party} shares the queue {queue} with another party: write `queue: {party}` under "
            f"parties.{party}."
            for queue in sorted(own & others)
        ]
        faults += [
            f"{party}'s queue {queue} is named like a key of another party's in the broker."
            for queue in sorted(own)
            if is_key(queue)
        ]
        if party == USER:
            faults.append(f"A party called {party} would have the coordinator's user.")
    if faults:
        raise ConfigError(
            "\n".join(faults),
            "Each party's worker takes its own queue alone. Then agree to the file again.",
        )
    return {party: tuple(sorted(own)) for party, own in queues.items()}


def _users(file: Path) -> dict[str, int]:
    """The users of the parties' containers in a compose file that is there."""
    if not file.is_file():
        return {}
    try:
        services: Mapping[str, Any] = yaml.safe_load(file.read_text())["services"]
        return {
            name.removeprefix("worker-"): int(service["user"].partition(":")[0])
            for name, service in services.items()
            if name.startswith("worker-")
        }
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(
            f"{file} is not a compose file of this command.", "Name another folder with --out."
        ) from None


def _own(folder: Path, user: int) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, user, user)


def _rendered(members: list[Member]) -> str:
    environment = Environment(
        loader=FileSystemLoader(docker_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        # Names and queues have no letter that it would change.
        autoescape=True,
    )
    return environment.get_template("compose.yaml.j2").render(parties=members)
