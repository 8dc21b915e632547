"""One Airflow, and a Celery worker for each party as a unix user of its own."""

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.parties import environment, federations, servers
from opboost_ops.orchestration.parties.commands import AIRFLOW, SERVERS
from opboost_ops.orchestration.parties.components import Components
from opboost_ops.orchestration.parties.places import SHARED, Places, check_passable, make, write
from opboost_ops.orchestration.parties.records import (
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
from opboost_ops.orchestration.processes import end, living
from opboost_ops.orchestration.standalone import AirflowError

#: Where a topology lies unless another folder is named.
FOLDER = Path("/srv/opboost-parties")


class Topology(Components):
    """The coordinator's Airflow, PostgreSQL and Redis, and a worker of each party.

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
        places = Places(folder.resolve())
        super().__init__(
            places,
            prefix,
            environment or places.root / "environment",
            coordinator_settings or {},
            worker_settings or {},
            worker_environment or {},
        )
        self._dataset, self._rows, self._copies = dataset, rows, copies
        self._training = dict(training or {})
        self._store = store or str(places.exchange)

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

    def client(self) -> Client:
        """A client of Airflow's REST API, logged in."""
        client = Client(self.url)
        password = self._secrets().admin
        self._until(lambda: client.login("admin", password), "Airflow does not answer")
        return client

    def _up(self) -> None:
        environment.build(self._environment)
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
        queues = federations.queues(self.places.federations)
        if reserved := sorted({"airflow", "exchange"} & set(queues)):
            raise ConfigError(
                f"No party can be named {reserved[0]} here: its unix user would be another's.",
                "Rename it in the federation file.",
            )
        where, parties = str(self._environment), tuple(sorted(queues))
        write_state(self.places, State(ports=new_ports(), environment=where, parties=parties))
        secrets = read_secrets(self.places, sorted(queues))
        write(self.places.passwords, json.dumps({"admin": secrets.admin}), 0o600, *owner)
        for party in queues:
            home = self.places.home(party)
            federations.prepare_home(home, make_user(f"{self.prefix}-{party}", home))
        servers.prepare_database(self.places, coordinator, secrets)
        servers.prepare_broker(self.places, coordinator, secrets, self._state(), queues)
        for name in SERVERS:
            self.start(name)
        self._migrate()
        names = [*AIRFLOW, *(f"worker-{party}" for party in queues)]
        for name in names:
            self.launch(name)
        for name in names:
            self._until(partial(self.ready, name), f"{name} is not ready", names)

    def _down(self) -> None:
        before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            state = read_state(self.places)
            names = set(state.sessions if state else ()) - set(SERVERS)
            end(lambda: self._processes(names))
            for name in SERVERS:
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
        python = str(self.commands / "python")
        process = self._run("migrate", [python, "-m", "airflow", "db", "migrate"])
        if process.wait():
            raise AirflowError("Airflow's database was not made.", f"See {self.log('migrate')}.")

    def _accounts(self) -> list[Account]:
        names = ["airflow", *self.parties]
        found = [find_user(f"{self.prefix}-{name}") for name in names]
        return [account for account in found if account]

    def _living(self) -> set[int]:
        users = {account.uid for account in self._accounts()}
        return {pid for pid, process in living().items() if process.uid in users}

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
