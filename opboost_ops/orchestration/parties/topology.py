"""One Airflow, and a Celery worker for each party as a unix user of its own."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.parties import environment, environments, federations, servers
from opboost_ops.orchestration.parties.places import SHARED, Places, check_passable, make, write
from opboost_ops.orchestration.parties.records import (
    Secrets,
    State,
    new_ports,
    read_secrets,
    read_state,
    write_state,
)
from opboost_ops.orchestration.parties.users import (
    Account,
    find_user,
    make_group,
    make_user,
    remove_group,
    remove_user,
)
from opboost_ops.orchestration.processes import end, living, send, trees
from opboost_ops.orchestration.standalone import AirflowError

#: Where a topology lies unless another folder is named.
FOLDER = Path("/opt/opboost-parties")

_SERVERS = ("postgres", "redis")
_AIRFLOW = ("api-server", "scheduler", "dag-processor")

#: Starts a component again when it has ended by itself, as systemd or a container engine does:
#: Airflow's scheduler ends when Redis is away. Five deaths within 30 s of a start are too many.
_KEEP = """quick=0
while [ $quick -lt 5 ]; do
  begin=$(date +%s)
  "$@"
  code=$?
  if [ $(($(date +%s) - begin)) -lt 30 ]; then quick=$((quick + 1)); else quick=0; fi
  echo "ended with $code and is started again"
  sleep 1
done
exit $code
"""

#: Seconds until everything must be up.
_PATIENCE = 300.0


class Topology:
    """The coordinator's Airflow, PostgreSQL and Redis, and a worker of each party.

    Every component has a process session of its own, and every party a unix user that runs
    nothing else: so all that ever was started can be found and ended, by whoever comes next.
    As a context manager it is up inside and down afterwards.

    Args:
        folder: Where all of it lies; other users must be able to enter the folders above.
        prefix: How the names of its unix users and its group begin: a machine has one topology
            for each prefix.
        environment: Folder of the Python environment; in ``folder`` when absent.
        dataset: Whose federation is made if ``folder`` holds none.
        rows: Of the generated dataset.
        copies: How many federations of the same parties are made.
        training: Other entries of ``training`` in their files.
        store: URL of the exchange; a folder that the parties share when absent.
        coordinator_settings: More settings of the coordinator's Airflow, by ``section.option``.
        worker_settings: More settings of the workers' Airflow, by ``section.option``.
        worker_environment: More environment variables of the workers.
    """

    def __init__(
        self,
        folder: Path = FOLDER,
        *,
        prefix: str = "opboost",
        environment: Path | None = None,
        dataset: str = "credit",
        rows: int | None = None,
        copies: int = 1,
        training: Mapping[str, Any] | None = None,
        store: str | None = None,
        coordinator_settings: Mapping[str, object] | None = None,
        worker_settings: Mapping[str, object] | None = None,
        worker_environment: Mapping[str, str] | None = None,
    ) -> None:
        self.places = Places(folder.resolve())
        self.prefix = prefix
        self._environment = environment or self.places.root / "environment"
        self._dataset, self._rows, self._copies = dataset, rows, copies
        self._training = dict(training or {})
        self._store = store or str(self.places.exchange)
        self._more = (dict(coordinator_settings or {}), dict(worker_settings or {}))
        self._worker_environment = dict(worker_environment or {})
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Topology":
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def parties(self) -> tuple[str, ...]:
        """All parties; none before the first `up`."""
        state = read_state(self.places)
        return state.parties if state else ()

    @property
    def commands(self) -> Path:
        """Folder of the programs that the parties' users run, `opboost` among them."""
        return self._environment / "bin"

    @property
    def url(self) -> str:
        """Where Airflow listens."""
        return f"http://127.0.0.1:{self._state().ports.api}"

    @property
    def components(self) -> dict[str, int]:
        """The process that leads each component that runs, by name.

        Names are ``postgres``, ``redis``, ``api-server``, ``scheduler``, ``dag-processor`` and
        ``worker-<party>``.
        """
        state = read_state(self.places)
        found, among = (state.sessions if state else {}), living()
        own = self._own(found)
        return {
            name: pid for name, pid in found.items() if pid in among and among[pid].uid == own[name]
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
        own = name.startswith("worker-")
        home = self.places.home(party) if own else self.places.coordinator
        return home / f"{name}.log"

    def up(self) -> None:
        """Start everything, and wait until it works.

        Raises:
            ConfigError: Not root, a Debian package is missing, or something of it runs already.
            AirflowError: A component ended, or was not ready in time.
        """
        _check_root()
        servers.check_packages()
        check_passable(self.places.root)
        self.places.root.mkdir(parents=True, exist_ok=True)
        self.places.root.chmod(0o755)
        with self._locked():
            if self._living():
                raise ConfigError(
                    f"Processes of the users {self.prefix}-* run already.",
                    "End them by `make parties-down`.",
                )
            try:
                self._up()
            except BaseException:
                self._down()
                raise

    def down(self) -> None:
        """End everything, whatever it takes."""
        _check_root()
        if self.places.root.is_dir():
            with self._locked():
                self._down()

    def remove(self) -> None:
        """End everything, and remove its users and its folder, keys and tables too."""
        _check_root()
        self.down()
        for account in self._accounts():
            remove_user(account.name)
        remove_group(self._group())
        shutil.rmtree(self.places.root, ignore_errors=True)

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

    def client(self) -> Client:
        """A client of Airflow's REST API, logged in."""
        client = Client(self.url)
        password = self._secrets().admin
        self._until(lambda: client.login("admin", password), "Airflow does not answer")
        return client

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
            clients = servers.ask_broker(state, self._secrets(), "CLIENT", "LIST")
            mark = f" user={name.removeprefix('worker-')} "
            return any(mark in line and "cmd=brpop" in line for line in clients.splitlines())
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
        process = self._run(name, self._command(name))
        sessions = {**state.sessions, name: process.pid}
        write_state(self.places, state.model_copy(update={"sessions": sessions}))

    def _up(self) -> None:
        self._python = environment.build(self._environment)
        coordinator = make_user(f"{self.prefix}-airflow", self.places.coordinator)
        owner = (coordinator.uid, coordinator.gid)
        exchange = make_group(self._group())
        make(self.places.root / "homes", 0o755)
        make(self.places.exchange, SHARED, 0, exchange)
        make(self.places.coordinator, 0o700, *owner)
        for name in ("airflow", "tmp"):
            make(self.places.coordinator / name, 0o700, *owner)
        if not self.places.federations.exists():
            federations.write_federations(
                self.places, self._dataset, self._rows, self._copies, self._training, self._store
            )
        queues = federations.queues(self.places)
        if reserved := sorted({"airflow", "exchange"} & set(queues)):
            raise ConfigError(
                f"No party can be named {reserved[0]} here: its unix user would be another's.",
                "Rename it in the federation file.",
            )
        write_state(self.places, State(ports=new_ports(), parties=tuple(sorted(queues))))
        secrets = read_secrets(self.places, sorted(queues))
        write(self.places.passwords, json.dumps({"admin": secrets.admin}), 0o600, *owner)
        for party in queues:
            home = self.places.home(party)
            federations.prepare_home(home, make_user(f"{self.prefix}-{party}", home))
        servers.prepare_database(self.places, coordinator, secrets)
        servers.prepare_broker(self.places, coordinator, secrets, self._state(), queues)
        for name in _SERVERS:
            self.start(name)
        self._migrate()
        names = [*_AIRFLOW, *(f"worker-{party}" for party in queues)]
        for name in names:
            self.launch(name)
        for name in names:
            self._until(partial(self.ready, name), f"{name} is not ready", names)

    def _down(self) -> None:
        before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            state = read_state(self.places)
            names = set(state.sessions if state else ()) - set(_SERVERS)
            end(lambda: self._processes(names))
            for name in _SERVERS:
                self.stop(name)
            # Whatever has left its session: these users run nothing else.
            end(self._living)
            self._reap()
            if state:
                write_state(self.places, state.model_copy(update={"sessions": {}}))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _migrate(self) -> None:
        process = self._run("migrate", [str(self._python), "-m", "airflow", "db", "migrate"])
        if process.wait():
            raise AirflowError("Airflow's database was not made.", f"See {self.log('migrate')}.")

    def _command(self, name: str) -> list[str]:
        if name == "postgres":
            return servers.database_command(self.places, self._state())
        if name == "redis":
            return servers.broker_command(self.places)
        python = str(self._environment / "bin" / "python")
        airflow = ["/bin/sh", "-c", _KEEP, name, python, "-m", "airflow"]
        if not name.startswith("worker-"):
            # The log server listens on all addresses, and no log is there: workers keep theirs.
            return [*airflow, name, *(("--skip-serve-logs",) if name == "scheduler" else ())]
        queues = federations.queues(self.places)[name.removeprefix("worker-")]
        return [
            *(*airflow, "celery", "worker", "--queues", ",".join(sorted(queues))),
            *("--skip-serve-logs", "--without-mingle", "--without-gossip"),
        ]

    def _environment_of(self, name: str) -> dict[str, str]:
        state, secrets = self._state(), self._secrets()
        python = self._environment / "bin" / "python"
        if name in _SERVERS:
            return {"PATH": os.defpath, "LANG": "C.UTF-8"}
        if not name.startswith("worker-"):
            return environments.coordinator(self.places, python, state, secrets, self._more[0])
        party = name.removeprefix("worker-")
        return {
            **environments.worker(self.places, python, state, secrets, party, self._more[1]),
            **self._worker_environment,
        }

    def _run(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        account = self.account(name)
        worker = name.startswith("worker-")
        log = self.log(name)
        write(log, "", 0o600, account.uid, account.gid)
        with open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab") as output:
            process = subprocess.Popen(
                command,
                env=self._environment_of(name),
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=account.uid,
                group=account.gid,
                extra_groups=[make_group(self._group())] if worker else [],
                # The parties' group reads what a party publishes; nobody reads anything else.
                umask=0o007 if worker else 0o077,
            )
        self._children.append(process)
        return process

    def _until(self, done: Callable[[], bool], problem: str, names: Sequence[str] = ()) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not done():
            self._check(names)
            if time.monotonic() > deadline:
                raise AirflowError(f"{problem} in time.", f"See {self.places.root}.")
            time.sleep(0.2)

    def _check(self, names: Sequence[str]) -> None:
        self._reap()
        running = self.components if names else {}
        for name in names:
            if name not in running:
                lines = self.log(name).read_text(errors="replace").splitlines()
                raise AirflowError(
                    f"{name} has ended:\n" + "\n".join(lines[-15:]),
                    f"All of its output is in {self.log(name)}.",
                )

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]

    def _accounts(self) -> list[Account]:
        names = ["airflow", *self.parties]
        found = [find_user(f"{self.prefix}-{name}") for name in names]
        return [account for account in found if account]

    def _processes(self, names: Collection[str]) -> set[int]:
        state = read_state(self.places)
        sessions = (
            {name: state.sessions[name] for name in names if name in state.sessions}
            if state
            else {}
        )
        # A number that was given to a process of somebody else since is not ours.
        users = set(self._own(sessions).values())
        among = living()
        return {pid for pid in trees(set(sessions.values()), among) if among[pid].uid in users}

    def _own(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.account(name).uid for name in names}

    def _living(self) -> set[int]:
        users = {account.uid for account in self._accounts()}
        return {pid for pid, process in living().items() if process.uid in users}

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

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.places.lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"Another command starts or ends the topology in {self.places.root}.",
                    "Wait until it is done.",
                ) from None
            yield


def _check_root() -> None:
    if os.geteuid() != 0:
        raise ConfigError(
            "Only root can start processes as other users.", "Run this as root, or by sudo."
        )
