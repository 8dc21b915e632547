"""The servers, Airflow's own processes and the parties' workers: each as its own unix user."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.parties import environments, servers
from opboost_ops.orchestration.parties.commands import ENDED, SERVERS, command_of
from opboost_ops.orchestration.parties.places import Places, write
from opboost_ops.orchestration.parties.records import (
    Ports,
    Secrets,
    State,
    read_secrets,
    read_state,
    write_state,
)
from opboost_ops.orchestration.parties.users import Account, find_user, make_group
from opboost_ops.orchestration.processes import end, living, send, trees
from opboost_ops.orchestration.standalone import AirflowError

#: Seconds until everything must be up.
_PATIENCE = 600.0

#: A component that ends so often before it has worked once is not going to work.
_HOPELESS = 5


class Components:
    """What a topology consists of, found and started by name.

    Names are ``postgres``, ``redis``, ``api-server``, ``scheduler``, ``dag-processor`` and
    ``worker-<party>``. Every component has a process session of its own, and every party a unix
    user that runs nothing else: so all that ever was started can be found and ended, by whoever
    comes next.

    Args:
        places: Where all of it lies.
        prefix: How the names of its unix users and its group begin.
        environment: Folder of the Python environment.
        coordinator_settings: More settings of the coordinator's Airflow, by ``section.option``.
        worker_settings: More settings of the workers' Airflow, by ``section.option``.
        worker_environment: More environment variables of the workers.
    """

    def __init__(
        self,
        places: Places,
        prefix: str,
        environment: Path,
        coordinator_settings: Mapping[str, object],
        worker_settings: Mapping[str, object],
        worker_environment: Mapping[str, str],
    ) -> None:
        self.places = places
        self.prefix = prefix
        self._environment = environment
        self._more = (dict(coordinator_settings), dict(worker_settings))
        self._worker_environment = dict(worker_environment)
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def parties(self) -> tuple[str, ...]:
        """All parties; none before the first `up`."""
        state = read_state(self.places)
        return state.parties if state else ()

    @property
    def commands(self) -> Path:
        """Folder of the programs that the parties' users run, `opboost` among them."""
        state = read_state(self.places)
        return Path(state.environment if state else self._environment) / "bin"

    @property
    def ports(self) -> Ports:
        """Where the servers listen on 127.0.0.1."""
        return self._state().ports

    @property
    def url(self) -> str:
        """Where Airflow listens."""
        return f"http://127.0.0.1:{self.ports.api}"

    @property
    def components(self) -> dict[str, int]:
        """The process that leads each component that runs, by name."""
        state = read_state(self.places)
        found, among = (state.sessions if state else {}), living()
        return {
            name: pid
            for name, pid in found.items()
            if pid in among and among[pid].uid == self.account(name).uid
        }

    def account(self, name: str) -> Account:
        """The unix user of a component, of a party or of the ``coordinator``.

        Raises:
            ConfigError: There is no such user.
        """
        party = name.removeprefix("worker-")
        user = f"{self.prefix}-{party if party in self.parties else 'airflow'}"
        if found := find_user(user):
            return found
        raise ConfigError(f"There is no user {user}.", "Start the topology first.")

    def log(self, name: str) -> Path:
        """What a component prints: in the home of whom it belongs to."""
        party = name.removeprefix("worker-")
        home = self.places.coordinator if party == name else self.places.home(party)
        return home / f"{name}.log"

    def ends(self, name: str) -> int:
        """How often a part of Airflow has ended by itself, and was started again.

        Args:
            name: One of `components`.
        """
        log = self.log(name)
        if name in SERVERS or not log.is_file():
            return 0
        with log.open(errors="replace") as lines:
            return sum(line.startswith(ENDED) for line in lines)

    def start(self, name: str) -> None:
        """Start a component that does not run, and wait until it works.

        Args:
            name: One of `components`.
        """
        self.launch(name)
        self._until(partial(self.ready, name), f"{name} is not ready", [name])

    def stop(self, name: str, grace: float = 4.0) -> None:
        """End a component: it is asked to, and ended if it does not.

        Args:
            name: One of `components`.
            grace: Seconds in between.
        """
        # PostgreSQL waits for its clients unless it is asked in this way.
        if name == "postgres" and (leader := self.components.get(name)):
            send(leader, signal.SIGINT)
            deadline = time.monotonic() + grace
            while self.processes(name) and time.monotonic() < deadline:
                time.sleep(0.05)
        end(lambda: self.processes(name), grace)
        self._reap()

    def kill(self, name: str) -> None:
        """End all processes of a component at once, as ``kill -9`` does.

        Args:
            name: One of `components`.
        """
        while remaining := self.processes(name):
            for pid in remaining:
                send(pid, signal.SIGKILL)
        self._reap()

    def processes(self, name: str) -> list[int]:
        """All living processes of a component.

        Args:
            name: One of `components`.
        """
        return sorted(self._processes([name]))

    def check(self) -> None:
        """Make sure that all components run that were started.

        Raises:
            AirflowError: With the last lines of the one that does not.
        """
        self._check(list(self._state().sessions))

    def ready(self, name: str) -> bool:
        """Whether a component does its work.

        Args:
            name: One of `components`.
        """
        state = self._state()
        if name == "postgres":
            return servers.database_answers(state)
        if name == "redis":
            return servers.ask_broker(state, self._secrets(), "PING").strip() == "PONG"
        if name.startswith("worker-"):
            return servers.awaits_tasks(state, self._secrets(), name.removeprefix("worker-"))
        client = Client(self.url)
        if not client.login("admin", self._secrets().admin):
            return False
        return name == "api-server" or client.healthy(name.replace("-", "_"))

    def launch(self, name: str) -> None:
        """Start a component, and do not wait for it.

        Args:
            name: One of `components`.
        """
        if self.processes(name):
            raise ConfigError(f"{name} runs already.", "Stop it first.")
        state = self._state()
        process = self._run(name, command_of(name, self.places, state, self.commands / "python"))
        sessions = {**state.sessions, name: process.pid}
        write_state(self.places, state.model_copy(update={"sessions": sessions}))

    def _environment_of(self, name: str) -> dict[str, str]:
        if name in SERVERS:
            return {"PATH": os.defpath, "LANG": "C.UTF-8"}
        known = (self.places, self.commands / "python", self._state(), self._secrets())
        if not name.startswith("worker-"):
            return environments.coordinator(*known, self._more[0])
        party = name.removeprefix("worker-")
        return environments.worker(*known, party, self._more[1]) | self._worker_environment

    def call(self, name: str, *command: str, given: str = "") -> str:
        """What a program prints that is run as a component's user, with all that it has.

        Args:
            name: One of `components`.
            command: The program and its arguments.
            given: What it reads.

        Raises:
            AirflowError: It failed; with its last lines.
        """
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, **self._as(name)
        )
        if done.returncode:
            lines = "\n".join(done.stderr.strip().splitlines()[-15:])
            raise AirflowError(f"{command[0]} failed as the user of {name}:\n{lines}")
        return str(done.stdout)

    def _as(self, name: str) -> dict[str, Any]:
        account = self.account(name)
        worker = name.startswith("worker-")
        return {
            "env": self._environment_of(name),
            "cwd": self.log(name).parent,
            "start_new_session": True,
            "user": account.uid,
            "group": account.gid,
            "extra_groups": [make_group(self._group())] if worker else [],
            # The parties' group reads what a party publishes; nobody reads anything else.
            "umask": 0o007 if worker else 0o077,
        }

    def _run(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        account = self.account(name)
        log = self.log(name)
        write(log, "", 0o600, account.uid, account.gid)
        with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                **self._as(name),
            )
        self._children.append(process)
        return process

    def _until(self, done: Callable[[], bool], problem: str, names: Sequence[str] = ()) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not done():
            self._check(names, starting=True)
            if time.monotonic() > deadline:
                raise AirflowError(f"{problem} in time.", f"See {self.places.root}.")
            time.sleep(0.2)

    def _check(self, names: Sequence[str], starting: bool = False) -> None:
        self._reap()
        running = self.components if names else {}
        for name in names:
            if name not in running or (starting and self.ends(name) >= _HOPELESS):
                lines = self.log(name).read_text(errors="replace").splitlines()
                raise AirflowError(
                    f"{name} has ended:\n" + "\n".join(lines[-15:]),
                    f"All of its output is in {self.log(name)}.",
                )

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]

    def _processes(self, names: Collection[str]) -> set[int]:
        state = read_state(self.places)
        known = state.sessions if state else {}
        sessions = {name: known[name] for name in names if name in known}
        # A number that was given to a process of somebody else since is not ours.
        users = {self.account(name).uid for name in sessions}
        among = living()
        return {pid for pid in trees(set(sessions.values()), among) if among[pid].uid in users}

    def _group(self) -> str:
        return f"{self.prefix}-exchange"

    def _state(self) -> State:
        state = read_state(self.places)
        if state is None:
            raise ConfigError(
                f"No topology has been started in {self.places.root}.", "Run `make parties-up`."
            )
        return state

    def _secrets(self) -> Secrets:
        return read_secrets(self.places, self.parties)
