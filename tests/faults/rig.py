"""One Airflow with a Celery worker for each party, with gates in front of the servers.

Redis and the workers run with the settings that docker/one-airflow gives their containers. What
ends by itself is started again, as a container engine does.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.containers.parties import make_keys
from tests.deployments import PARTIES, write_deployment
from tests.faults import compose
from tests.faults.gate import Gate
from tests.processes import Processes
from tests.servers.conftest import free_port

BIN = Path(sys.executable).parent

#: Whose code runs.
ROOT = Path(__file__).parents[2]

#: By these Airflow misses a lost task soon.
_SOON = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    # What a worker had taken from its queue and not begun is sent once more.
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "150",
}


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
        self.keys = root / "keys"
        make_keys(self.keys, [f"{party}:{os.getuid()}" for party in PARTIES])
        (root / "logs").mkdir()
        self.processes = Processes(root / "logs")
        port = free_port()
        self.gates = {"redis": Gate(port), "postgres": Gate(int(postgres.rpartition(":")[2]))}
        self._services = compose.services()
        self._ending = threading.Event()
        self._engine = threading.Thread(target=self._restart)
        self._redis = root / "redis.conf"
        settings = (self.keys / "redis.conf").read_text().replace("0.0.0.0", "127.0.0.1")
        self._redis.write_text(settings.replace("6379", str(port)).replace("/data", str(root)))
        for path in self.keys.glob("*-broker.url"):
            address = f"127.0.0.1:{self.gates['redis'].port}"
            path.write_text(path.read_text().replace("redis:6379", address))
        broker = (self.keys / "coordinator-broker.url").read_text()
        database = re.sub(r":\d+$", f":{self.gates['postgres'].port}", postgres)
        self.airflow = Standalone(
            root / "airflow",
            self.federations,
            {},
            components=("api-server", "dag-processor"),
            environment={
                "AIRFLOW__CELERY__BROKER_URL": broker,
                "AIRFLOW__CELERY__RESULT_BACKEND": broker,
                "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
                "AIRFLOW__CORE__PARALLELISM": "32",
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"{database}/postgres",
                **_SOON,
            },
        )

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
        client = self.airflow.client()
        client.http.timeout = 300  # The machine may be a busy one.
        return client

    def start(self, name: str) -> None:
        """Start Redis, the scheduler, or a party's worker as ``worker-<party>``."""
        airflow = str(BIN / "airflow")
        command = [airflow, name, "--skip-serve-logs"]
        if name == "redis":
            command = ["redis-server", str(self._redis)]
        elif name != "scheduler":
            command = [airflow, *self._services[name]["command"]]
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
        self.airflow.__enter__()
        self.start("scheduler")
        for party in PARTIES:
            for folder in ("airflow", "tmp"):
                (self.home(party) / folder).mkdir()
            self.start(f"worker-{party}")
        self._engine.start()

    def _stop(self) -> None:
        self._ending.set()
        if self._engine.ident:
            self._engine.join()
        self.processes.stop()
        self.airflow.stop()
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
        if name == "scheduler":
            return self.airflow.environment
        party = name.removeprefix("worker-")
        home, own = self.home(party), self.environment[party]
        path = [compose.FOLDER / "image" / "settings", own.get("PYTHONPATH", ""), ROOT]
        api = self.airflow.environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"]
        places = {
            "/run/secrets/broker.url": self.keys / f"{party}-broker.url",
            "/usr/local/opboost/dags": ROOT / "dags",
            "http://api-server:8080/execution/": api,
            "/federations": self.federations,
            "/site/": f"{home}/",
        }
        settings = compose.moved(self._services[name]["environment"], places)
        mine = {"HOME": str(home), "TMPDIR": str(home / "tmp")}
        python = {"PYTHONPATH": ":".join(map(str, path))}
        return {**compose.bare(BIN), **settings, **mine, **_SOON, **own, **python}
