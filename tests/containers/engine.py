"""The machine's container engine and its compose: Podman, or Docker where its daemon answers."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until

#: Seconds between two health checks of each container, where the engine runs none by itself.
_PULSE = 3


class Engine:
    """Runs containers, and compose files by whichever compose there is.

    Args:
        scratch: A folder of its own.
    """

    def __init__(self, scratch: Path) -> None:
        self.program = _program()
        self.compose = _compose()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("COMPOSE_")
        }
        self._scratch = scratch
        self._stop = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator["Engine"]:
        """Podman answers as Docker's daemon does, and looks after its containers' health."""
        if self.program != "podman":
            yield self
            return
        socket = self._scratch / "podman.sock"
        self.environment["DOCKER_HOST"] = f"unix://{socket}"
        with (self._scratch / "podman.log").open("wb") as log:
            command = ["podman", "system", "service", "--time", "0", f"unix://{socket}"]
            service = subprocess.Popen(command, stdout=log, stderr=log)
        nurse = threading.Thread(target=self._nurse, daemon=True)
        try:
            until(socket.exists, "Podman's service", 30)
            # Its timers of health checks are systemd's.
            if not Path("/run/systemd/system").exists():
                nurse.start()
            yield self
        finally:
            self._stop.set()
            if nurse.ident:
                nurse.join()
            service.terminate()
            service.wait()

    def _nurse(self) -> None:
        while not self._stop.wait(_PULSE):
            for name in self.ask("ps", "--format", "{{.Names}}").split():
                command = [self.program, "healthcheck", "run", name]
                subprocess.run(command, capture_output=True, check=False)

    def run(
        self, *command: str | Path, seconds: float = 60, program: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the engine."""
        return subprocess.run(
            [program or self.program, *map(str, command)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def ask(self, *command: str | Path, seconds: float = 60) -> str:
        """What a command of the engine says; the test fails where it does."""
        done = self.run(*command, seconds=seconds)
        if done.returncode:
            words = " ".join(map(str, command))
            pytest.fail(f"{self.program} {words}: {done.stdout[-1500:]}{done.stderr[-3000:]}")
        return done.stdout.strip()


class Project:
    """A compose file that runs, under a name of its own.

    Args:
        engine: What runs it.
        name: Of the project.
        files: The compose file, and what overrides it.
        values: Its variables.
    """

    def __init__(
        self, engine: Engine, name: str, files: Sequence[Path], values: Mapping[str, object]
    ) -> None:
        self.engine, self.name, self.files = engine, name, files
        self.values = {key: str(value) for key, value in values.items()}

    def up(self, seconds: float) -> float:
        """Bring everything up; the seconds that it took."""
        begun = time.monotonic()
        done = self._compose("up", "--detach", seconds=seconds)
        if done.returncode:
            pytest.fail(f"{self.name} does not come up.\n{done.stderr[-4000:]}\n{self.told()}")
        return time.monotonic() - begun

    def down(self) -> None:
        """Take everything away: containers, networks, volumes."""
        command = ("down", "--volumes", "--remove-orphans", "--timeout", "3")
        done = self._compose(*command, seconds=180)
        if left := self._containers("--all"):
            # Podman removes no container in whose network another one is, and Debian's compose
            # asks for both at once.
            self.engine.run("rm", "--force", *left, seconds=120)
            done = self._compose(*command, seconds=180)
        assert done.returncode == 0, done.stderr[-4000:]

    def container(self, service: str) -> str:
        """The container of a service."""
        (found,) = self._containers("--all", f"--filter=label=com.docker.compose.service={service}")
        return found

    def state(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's container."""
        (found,) = json.loads(self.engine.ask("inspect", self.container(service)))
        state: dict[str, Any] = found["State"]
        return state | {"Restarts": found["RestartCount"]}

    def is_back(self, service: str, restarts: int) -> bool:
        """Whether its container was started again since then, and is well."""
        return self.state(service)["Restarts"] > restarts and self.is_well(service)

    def is_well(self, service: str) -> bool:
        """Whether it runs, and its health check says so, if it has one."""
        state = self.state(service)
        health = state.get("Health") or {}
        return bool(state["Running"] and health.get("Status") in (None, "", "healthy"))

    def kill(self, service: str) -> None:
        """End a container's first process, and all others with it, as a crash does."""
        os.kill(self.state(service)["Pid"], signal.SIGKILL)

    def inside(self, service: str, *command: str) -> str:
        """What a command says that runs in a service's container."""
        return self.engine.ask("exec", self.container(service), *command)

    def refused(self, service: str, *command: str) -> str:
        """What a command says that must fail in a service's container."""
        done = self.engine.run("exec", self.container(service), *command)
        assert done.returncode, f"{' '.join(command)} did not fail in {service}."
        return done.stdout + done.stderr

    def output(self, service: str) -> str:
        """What a service's container printed."""
        done = self.engine.run("logs", self.container(service))
        return done.stdout + done.stderr

    def told(self) -> str:
        """How its containers are, and the last that each said."""
        names = self._containers("--all", name=True)
        listed = self.engine.run("ps", "--all", "--format", "{{.Names}}: {{.Status}}").stdout
        said = [f"-- {name}\n{self._tail(name)}" for name in names]
        return "\n".join([listed, *said])

    def _tail(self, name: str) -> str:
        done = self.engine.run("logs", "--tail", "15", name)
        return done.stdout + done.stderr

    def _containers(self, *options: str, name: bool = False) -> list[str]:
        of = f"--filter=label=com.docker.compose.project={self.name}"
        form = "{{.Names}}" if name else "{{.ID}}"
        return self.engine.ask("ps", "--format", form, of, *options).split()

    def _compose(self, *command: str, seconds: float) -> subprocess.CompletedProcess[str]:
        program, *rest = self.engine.compose
        files = [part for file in self.files for part in ("--file", str(file))]
        whole = [*rest, "--project-name", self.name, *files, *command]
        return subprocess.run(
            [program, *whole],
            env={**self.engine.environment, **self.values},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def _program() -> str:
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "info"], capture_output=True).returncode == 0:
        return "docker"
    if shutil.which("podman"):
        return "podman"
    pytest.fail("No container engine: install the package podman, or start Docker's daemon.")


def _compose() -> list[str]:
    """Docker's compose of today, or that of Debian."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version"], capture_output=True, check=False)
            if done.returncode == 0:
                return command
    pytest.fail("No compose: install Docker's compose plugin, or the package docker-compose.")
