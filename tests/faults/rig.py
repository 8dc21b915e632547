"""The processes of `opboost compose` on this machine, with gates in front of the servers.

Each runs with the settings that the compose file gives its container. What ends by itself is
started again, as a container engine does.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.compose import write_compose
from tests.deployments import PARTIES, write_deployment
from tests.faults import compose
from tests.faults.gate import Gate
from tests.processes import Processes
from tests.servers.conftest import free_port
from tests.waiting import until

BIN = Path(sys.executable).parent

#: Whose code runs.
ROOT = Path(__file__).parents[2]

#: By these Airflow misses a lost task soon.
_SOON = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    # What a worker had taken from its queue and not begun is sent once more.
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "150",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    # It listens at a port that is the same for all.
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
}

COORDINATOR = ("api-server", "scheduler", "dag-processor")


class Rig:
    """One Airflow and a worker for each party; up inside, as a context manager.

    Args:
        root: Folder of all that it makes.
        postgres: URL of a server.
        store: URL of the exchange.
        copies: How many federations of the same parties.
        environment: More variables of the workers.
    """

    def __init__(
        self, root: Path, postgres: str, store: str, copies: int, environment: Mapping[str, str]
    ) -> None:
        self.root = root
        self.federations = write_deployment(root, store, 400, copies, {"trees": 5})
        self.environment: dict[str, dict[str, str]] = {p: dict(environment) for p in PARTIES}
        for path in self.federations.iterdir():
            made = write_compose(path, root / "compose")
        (root / "compose" / "keys").rename(root / "keys")
        (root / "logs").mkdir()
        self.processes = Processes(root / "logs")
        self._broker = free_port()
        self.gates = {"redis": Gate(self._broker), "postgres": Gate(_port(postgres))}
        self._declared = compose.services(made.file)
        self._url = f"http://127.0.0.1:{free_port()}"
        self._ending = threading.Event()
        self._engine = threading.Thread(target=self._restart)
        keys = root / "keys"
        database = re.sub(r":\d+$", f":{self.gates['postgres'].port}", postgres)
        (keys / "database.url").write_text(f"{database}/postgres")
        for path in keys.glob("*-broker.url"):
            address = f"127.0.0.1:{self.gates['redis'].port}"
            path.write_text(path.read_text().replace("redis:6379", address))
        settings = (keys / "redis.conf").read_text().replace("0.0.0.0", "127.0.0.1")
        settings = settings.replace("port 6379", f"port {self._broker}").replace("/data", str(root))
        (keys / "redis.conf").write_text(settings)
        (root / "coordinator").mkdir()
        (keys / "passwords.json").rename(root / "coordinator" / "passwords.json")

    def __enter__(self) -> "Rig":
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def home(self, party: str) -> Path:
        """A party's folder."""
        return self.root / "homes" / party

    def client(self) -> Client:
        """A client of Airflow's REST API, logged in."""
        client = Client(self._url)
        client.http.timeout = 300  # The machine may be a busy one.
        text = (self.root / "coordinator" / "passwords.json").read_text()
        password = re.findall(r'"([^"]+)"', text)[1]
        until(lambda: client.login("admin", password) and client.healthy(), "Airflow")
        return client

    def start(self, name: str) -> None:
        """Start a service of the compose file."""
        declared = self._declared[name]
        command = declared["command"]
        if name == "redis":
            settings = str(self.root / "keys" / "redis.conf")
            command = ["redis-server", settings]
        else:
            command = [str(BIN / "airflow"), *command]
        if name == "api-server":
            command[2:] = ["--host", "127.0.0.1", "--port", self._url.rpartition(":")[2]]
        self.processes.start(name, command, self._settings(name), self.root)

    def restart(self, party: str, environment: Mapping[str, str]) -> None:
        """Start a party's worker again, with more variables than before."""
        self.environment[party] = dict(environment)
        self.processes.kill(f"worker-{party}")

    def opboost(self, party: str, group: str, command: str, *more: str) -> str:
        """What a command prints at a party."""
        whole = [BIN / "opboost", group, command, self.home(party), *more]
        own = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(whole, env=own, check=True, capture_output=True, text=True).stdout

    def _start(self) -> None:
        self.start("redis")
        migrate = [str(BIN / "airflow"), "db", "migrate"]
        subprocess.run(migrate, env=self._settings("migrate"), check=True, capture_output=True)
        for name in (*COORDINATOR, *(f"worker-{party}" for party in PARTIES)):
            if name.startswith("worker-"):
                for folder in ("airflow", "tmp"):
                    (self.home(name.removeprefix("worker-")) / folder).mkdir()
            self.start(name)
        self._engine.start()

    def _stop(self) -> None:
        self._ending.set()
        if self._engine.ident:
            self._engine.join()
        self.processes.stop()
        for gate in self.gates.values():
            gate.shut()

    def _restart(self) -> None:
        while not self._ending.wait(1):
            for name, process in tuple(self.processes.running.items()):
                if process.poll() is not None:
                    self.processes.kill(name)
                    self.start(name)

    def _settings(self, name: str) -> dict[str, str]:
        if name == "redis":
            return compose.bare()
        party = name.removeprefix("worker-")
        keys, home = self.root / "keys", self.root / "coordinator"
        of, own = "coordinator", {"PYTHONPATH": str(ROOT)}
        if party != name:
            home, of, own = self.home(party), party, self.environment[party]
            own = {"TMPDIR": str(home / "tmp"), **own}
            settings = str(compose.FOLDER / "image" / "settings")
            own["PYTHONPATH"] = f"{settings}:{own.get('PYTHONPATH', '')}:{ROOT}"
        places = {
            "/run/secrets/broker.url": keys / f"{of}-broker.url",
            "/run/secrets": keys,
            "/usr/local/opboost/dags": compose.FOLDER.parent / "dags",
            "http://api-server:8080": self._url,
            "http://127.0.0.1:8080": self._url,
            "/federations": self.federations,
            "/site/": f"{home}/",
            "/airflow/": f"{home}/",
        }
        if party == name:
            places["/airflow"] = home
        environment = compose.environment(self._declared[name])
        moved = compose.moved(environment, places)
        return {**compose.bare(BIN), **moved, "HOME": str(home), **_SOON, **own}


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
