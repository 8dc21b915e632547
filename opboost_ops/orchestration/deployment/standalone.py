"""A local Airflow for the demo and the UI; starts and stops as a unit."""

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import httpx

from opboost_ops.config.loading import load_federation
from opboost_ops.config.resources import shipped
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.orchestration.deployment import components
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.components import MIGRATION, log_of
from opboost_ops.orchestration.deployment.installation import LOCAL_SETTINGS
from opboost_ops.tables.spill.files import private_folder

#: Seconds between SIGTERM and SIGKILL.
GRACE = 4.0


def settings(values: Mapping[str, object]) -> dict[str, str]:
    """Return the environment variables of Airflow settings.

    Args:
        values: Values by ``section.option``.
    """
    return {
        f"AIRFLOW__{name.replace('.', '__').upper()}": str(value) for name, value in values.items()
    }


def free_port() -> int:
    """Return an unused port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def members(sessions: Sequence[int]) -> list[int]:
    """Return the living processes of some sessions from /proc; without /proc, only their leaders.

    Args:
        sessions: Process ids of the sessions' leaders, living or not.
    """
    processes = Path("/proc")
    if not (processes / "self" / "stat").exists():
        return [pid for pid in sessions if send(pid, 0)]
    living = []
    for stat in processes.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) in sessions and fields[0] != "Z":
            living.append(int(stat.parent.name))
    return living


def end(remaining: Callable[[], Collection[int]], grace: float = GRACE) -> None:
    """Terminate processes, and kill those that remain after a grace period.

    Args:
        remaining: Returns the processes that are alive, including ones started meanwhile.
        grace: Seconds between SIGTERM and SIGKILL.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + grace
        for pid in remaining():
            send(pid, number)
        while remaining() and time.monotonic() < deadline:
            time.sleep(0.05)


def send(pid: int, number: int) -> bool:
    """Send a signal; False if the process does not exist."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


_COMPONENTS = ("scheduler", "api-server", "dag-processor")

#: Tasks use their own API server. Airflow 3.3 writes a user's action to its audit log in the event
#: loop. On SQLite that waits for the writer's lock. If a task's request in the same process holds
#: the lock and needs the loop to commit, both block until SQLite times out after 5 s, and the user
#: gets an error 500.
_TASKS_API = "tasks-api"

#: Seconds until all components must be up.
_START_TIMEOUT = 300.0


class AirflowError(OpBoostError):
    """Airflow did not start, or stopped unexpectedly."""


def queues_of(federations: Path) -> list[str]:
    """Return the queues in a folder's valid federation files, and Airflow's default queue.

    Args:
        federations: The folder.
    """
    queues = {"default"}
    for path in (*federations.glob("*.yaml"), *federations.glob("*/federation.yaml")):
        with suppress(ConfigError):
            queues |= {party.queue for party in load_federation(path).parties.values()}
    return sorted(queues)


class Standalone:
    """Airflow on SQLite with the LocalExecutor, on 127.0.0.1 and a free port.

    A context manager. Each component has its own process session (`components`), so that Ctrl-C
    does not interrupt it, and all processes that it ever started can be found and ended.

    Args:
        home: The AIRFLOW_HOME; created if it does not exist.
        federations: The folder with federation files.
        sites: The ``site.yaml`` of each party on this machine.
        components: The components of Airflow to run.
        parties: The parties whose tasks this Airflow runs; all by default.
        environment: Variables that override those set here, such as the executor or keys.
    """

    def __init__(
        self,
        home: Path,
        federations: Path,
        sites: Mapping[str, Path],
        components: Sequence[str] = _COMPONENTS,
        parties: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home.resolve()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._tasks_port = free_port()
        self._tasks_url = f"http://127.0.0.1:{self._tasks_port}/execution/"
        self.passwords = self.home / "passwords.json"
        self._components = tuple(components)
        self._federations = federations
        self._launcher: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        self.environment = {**self._environment(federations, sites), **(environment or {})}
        if parties is not None:
            self.environment["OPBOOST_PARTIES"] = ",".join(parties)

    def __enter__(self) -> "Standalone":
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self) -> Client:
        """Return a logged-in client of the REST API; waits until Airflow is up.

        Raises:
            AirflowError: A component ended, or Airflow was not up in time.
        """
        user, password = next(iter(json.loads(self.passwords.read_text()).items()))
        client = Client(self.url)
        deadline = time.monotonic() + _START_TIMEOUT
        while not (self._tasks_api_is_up() and client.login(user, password) and client.healthy()):
            self.check()
            if time.monotonic() > deadline:
                raise AirflowError(
                    "Airflow did not start in time.", f"See the logs in {self.home / 'output'}."
                )
            time.sleep(0.2)
        return client

    def check(self) -> None:
        """Check that all components run.

        Raises:
            AirflowError: A component has ended; contains the last lines of its log.
        """
        launcher = self._launcher
        if launcher is None or launcher.poll() is None:
            return
        assert launcher.stdout is not None
        name, _, code = launcher.stdout.read().decode().partition(" ")
        file = log_of(self.home, name or MIGRATION)
        ended = (
            f"{name} ended with {code}" if name else f"launcher ended with {launcher.returncode}"
        )
        lines = file.read_text(errors="replace").splitlines()
        raise AirflowError(
            "\n".join([f"Airflow's {ended}:", *lines[-15:]]), f"The full log is {file}."
        )

    def stop(self) -> None:
        """End all processes that were started; signals are ignored until then."""
        before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            if self._launcher is not None:
                # Recomputed until empty, as a component may start processes meanwhile.
                end(lambda: members(self._sessions()))
                self._launcher.communicate()
                self._launcher = None
            if self._lock is not None:
                self._lock.close()
                self._lock = None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        for folder in (self.home, self.home / "config", self.home / "output"):
            private_folder(folder)
        self._take_home()
        (self.home / "config" / "airflow_local_settings.py").write_text(LOCAL_SETTINGS)
        if not self.passwords.exists():
            with open(os.open(self.passwords, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                json.dump({"admin": secrets.token_urlsafe(12)}, file)
        commands: dict[str, tuple[str, ...]] = {}
        for component in self._components:
            # Log servers would listen on all addresses, and the API server reads the files anyway.
            more = ["--skip-serve-logs"] if component in ("scheduler", "triggerer") else []
            if component == "triggerer":
                more += ["--queues", ",".join(queues_of(self._federations))]
            commands[component] = (component, *more)
        if "api-server" in self._components:
            own = ("--apps", "execution", "--port", str(self._tasks_port))
            commands[_TASKS_API] = ("api-server", *own)
        self._launch(commands)

    def _tasks_api_is_up(self) -> bool:
        # The server creates its routes at the first request, which takes seconds: better now, while
        # other components start, than when a run's first task waits for it.
        try:
            httpx.get(f"{self._tasks_url}health", timeout=30, trust_env=False)
        except httpx.TransportError:
            return False
        return True

    def _take_home(self) -> None:
        # The components inherit the lock: it is free once the last of them has ended.
        self._lock = open(self.home / "lock", "a+")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            raise ConfigError(
                f"Another Airflow runs in {self.home}.",
                "End it by Ctrl-C in its terminal (or, if that was killed, by "
                f"`kill -9 -- {self._lock.read().strip()}`), or choose another folder by --work.",
            ) from None
        self._lock.truncate(0)

    def _launch(self, commands: Mapping[str, Sequence[str]]) -> None:
        assert self._lock is not None
        lock = self._lock.fileno()
        with log_of(self.home, MIGRATION).open("wb") as log:
            self._launcher = subprocess.Popen(
                [sys.executable, "-m", components.__name__, str(lock), json.dumps(commands)],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
            )
        os.write(lock, f"-{self._launcher.pid} ".encode())

    def _sessions(self) -> list[int]:
        """Return the process sessions of the launcher and of the components."""
        assert self._lock is not None
        self._lock.seek(0)
        return [-int(session) for session in self._lock.read().split()]

    def _environment(self, federations: Path, sites: Mapping[str, Path]) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "OPBOOST_PARTIES", "OPBOOST_SITE_", "_AIRFLOW"))
        }
        python = Path(sys.executable).parent
        return {
            **inherited,
            "PATH": f"{python}{os.pathsep}{os.environ.get('PATH', '')}",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "PYTHONUNBUFFERED": "1",
            # setproctitle must not overwrite the environment, by which processes are identified.
            "SPT_NOENV": "1",
            "OPBOOST_FEDERATIONS": str(federations.resolve()),
            **{f"OPBOOST_SITE_{party.upper()}": str(p.resolve()) for party, p in sites.items()},
            "AIRFLOW_HOME": str(self.home),
            **settings(
                {
                    "api.host": "127.0.0.1",
                    "api.port": self.port,
                    "api.base_url": self.url,
                    "api.workers": 1,
                    "core.dags_folder": shipped("dags"),
                    "core.dags_are_paused_at_creation": False,
                    "core.execution_api_server_url": self._tasks_url,
                    "core.executor": "LocalExecutor",
                    "core.load_examples": False,
                    # More than run concurrently: Airflow may keep a process for a second after its
                    # task has ended.
                    "core.parallelism": 8,
                    "core.plugins_folder": self.home / "plugins",
                    "core.simple_auth_manager_passwords_file": self.passwords,
                    "core.simple_auth_manager_users": "admin:admin",
                    # By default all Airflows of a machine share one temporary folder.
                    "dag_processor.dag_bundle_storage_path": self.home / "bundles",
                    "dag_processor.min_file_process_interval": 10,
                    "dag_processor.refresh_interval": 10,
                    "database.sql_alchemy_conn": f"sqlite:///{self.home / 'airflow.db'}",
                    "scheduler.scheduler_idle_sleep_time": 0.1,
                    # With a triggerer, waiting tasks hold no process and need no restarts.
                    "triggerer.queues_enabled": "triggerer" in self._components,
                    "usage_data_collection.enabled": False,
                    "workers.execution_api_timeout": 30,
                    "workers.min_heartbeat_interval": 1,
                }
            ),
        }
