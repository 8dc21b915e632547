"""A coordinator behind its proxy, and three sites that only call out, as the compose files say."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.api_fastapi.auth.tokens import JWTGenerator

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import dump, write_workspace
from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.sites.keys import write_sites
from opboost_ops.orchestration.sites.maps import write_maps
from opboost_ops.orchestration.standalone import Standalone
from tests.servers.conftest import free_port
from tests.servers.conftest import postgres_server as postgres_server
from tests.sites import compose

PARTIES = ("credit", "shop", "bank")
BIN = Path(sys.executable).parent


def until(done: Any, what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def haproxy() -> str:
    found = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if found is None:
        pytest.fail("HAProxy is missing: install the package haproxy.")
    return found


class Processes:
    """Processes in sessions of their own, of which none is left in the end."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str], cwd: Path
    ) -> None:
        with (self.logs / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                command, env=env, cwd=cwd, stdout=log, stderr=log, start_new_session=True
            )

    def output(self, name: str) -> str:
        return (self.logs / f"{name}.log").read_text(errors="replace")

    def beats(self, party: str) -> bool:
        """Whether a party's worker has told that it is up."""
        assert self.running[f"worker-{party}"].poll() is None, self.output(f"worker-{party}")
        return f"PATCH /edge_worker/v1/worker/{party} 200" in self.output(f"tunnel-{party}")

    @contextlib.contextmanager
    def asleep(self, *names: str) -> Iterator[None]:
        """Stop processes and what they started for a while."""
        pids = _members([self.running[name] for name in names])
        try:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def stop(self, *names: str) -> None:
        """End these, or all."""
        ending = [self.running.pop(name) for name in names or tuple(self.running)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 5
            while (left := _members(ending)) and time.monotonic() < deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                for process in ending:
                    process.poll()
                time.sleep(0.1)
        for process in ending:
            process.wait()


def _members(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """The living processes of their sessions."""
    sessions = {process.pid for process in processes}
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) in sessions and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


@dataclass
class Sites:
    """What runs."""

    root: Path
    airflow: Standalone
    client: Client
    proxy: str
    processes: Processes
    own: dict[str, "Site"]

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    def call(
        self,
        party: str | None,
        method: str,
        path: str,
        body: str = "",
        token: str = "",
        keys: Path | None = None,
    ) -> tuple[int, Any]:
        """Call the proxy with a party's certificate, none without a party; paths go as they are."""
        context = ssl.create_default_context(cafile=self.keys / "coordinator" / "ca.pem")
        if party:
            context.load_cert_chain((keys or self.keys) / party / "client.pem")
        host, port = self.proxy.split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)
        return _asked(connection, method, path, body, token)

    def behind(self, method: str, path: str, body: str = "", token: str = "") -> tuple[int, Any]:
        """Call the API server, as nobody can but the proxy."""
        connection = http.client.HTTPConnection("127.0.0.1", self.airflow.port, timeout=60)
        return _asked(connection, method, path, body, token)

    def edge_token(self, path: str) -> str:
        """What any site can sign with what all sites share, for a path of the Edge API."""
        generator = JWTGenerator(secret_key=self.shared, valid_for=600, audience="api")
        return generator.generate({"method": path.partition("/edge_worker/v1/")[2]})

    @property
    def shared(self) -> str:
        return (self.keys / "bank" / "edge.secret").read_text()


def _asked(
    connection: http.client.HTTPConnection, method: str, path: str, body: str, token: str
) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Authorization": token}
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        content = reply.read()
    try:
        return reply.status, json.loads(content)
    except ValueError:
        return reply.status, None


@pytest.fixture(scope="session")
def sites(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Sites]:
    haproxy()
    root = tmp_path_factory.mktemp("outgoing")
    federations = _workspace(root)
    write_sites(root / "keys", PARTIES, ["127.0.0.1"])
    write_maps(federations, root / "maps")
    (root / "logs").mkdir()
    processes = Processes(root / "logs")
    address = f"127.0.0.1:{free_port()}"
    declared = compose.services("coordinator")
    places = {"/run/secrets": root / "keys" / "coordinator", "/maps": root / "maps"}
    environment = {
        name: value
        for name, value in compose.moved(compose.environment(declared["scheduler"]), places).items()
        if name.startswith(("AIRFLOW__EDGE__", "AIRFLOW__API_AUTH__")) or name in _COORDINATOR
    }
    server = request.getfixturevalue("postgres_server").replace("+psycopg:", "+psycopg2:")
    environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"{server}/postgres"
    airflow = Standalone(root / "airflow", federations, {}, environment=environment)
    try:
        with airflow:
            proxy = compose.moved(compose.environment(declared["proxy"]), places)
            proxy |= {
                "PROXY_ADDRESS": address,
                "API_SERVER": airflow.url.removeprefix("http://"),
            }
            config = compose.FOLDER / "coordinator" / "haproxy.cfg"
            command = [haproxy(), "-f", config]
            processes.start("proxy", command, {**compose.bare(), **proxy}, root)
            client = airflow.client()
            until(lambda: client.has_dag("credit_scoring_score"), "DAGs")
            # What the API server's healthcheck does before the proxy starts.
            script = root / declared["api-server"]["healthcheck"]["test"][-1]
            text = (compose.FOLDER / "image" / "health.py").read_text()
            script.write_text(text.replace("http://127.0.0.1:8080", airflow.url))
            health = [sys.executable, script]
            until(
                lambda: subprocess.run(health, timeout=300).returncode == 0, "API server's health"
            )
            own = {party: Site(root, party, address, root / "keys") for party in PARTIES}
            for site in own.values():
                site.start_tunnel(processes)
                site.start_worker(processes)
            for party in PARTIES:
                until(lambda party=party: processes.beats(party), f"the worker of {party}")
            yield Sites(root, airflow, client, address, processes, own)
    finally:
        processes.stop()


#: Settings of the coordinator's containers that hold here, too; others name hosts and folders.
_COORDINATOR = ("AIRFLOW__CORE__EXECUTOR", "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS")


def _workspace(root: Path) -> Path:
    """The federation file for all, and a folder for each site with what is its own."""
    file = write_workspace(load("credit", rows=2000), root / "sites", training={"trees": 10})
    data = yaml.safe_load(file.read_text())
    for party in PARTIES:
        data["parties"][party]["queue"] = f"queue.{party}"
    federations = root / "federations"
    federations.mkdir()
    file.unlink()
    dump(federations / "credit.yaml", data)
    return federations


class Site:
    """A party's tunnel and worker, as ``compose.site.yaml`` has them."""

    def __init__(self, root: Path, party: str, proxy: str, keys: Path) -> None:
        values = {
            "PARTY": party.upper(),
            "WORKER": party,
            "QUEUE": f"queue.{party}",
            "COORDINATOR": "127.0.0.1",
        }
        self.party, self.proxy, self.keys = party, proxy, keys
        self.home = root / "sites" / party
        self.address = f"127.0.0.1:{free_port()}"
        self.declared = compose.services("site", values)
        self.places = {
            "/run/secrets": keys / party,
            "/federations": root / "federations",
            "/usr/local/opboost/dags": compose.FOLDER.parent / "dags",
            "/site/": f"{self.home}/",
            "127.0.0.1:8793": self.address,
            "127.0.0.1:8443": proxy,
        }

    def start_tunnel(self, processes: Processes, name: str = "tunnel") -> None:
        config = compose.FOLDER / "site" / "haproxy.cfg"
        environment = compose.moved(compose.environment(self.declared["tunnel"]), self.places)
        command = [haproxy(), "-f", config]
        whole = {**compose.bare(), **environment}
        processes.start(f"{name}-{self.party}", command, whole, self.home)

    @property
    def worker_environment(self) -> dict[str, str]:
        environment = compose.moved(compose.environment(self.declared["worker"]), self.places)
        # As the image has it.
        own = {"PYTHONPATH": str(compose.FOLDER / "image" / "settings")}
        return {**compose.bare(BIN), **own, **environment, "TMPDIR": str(self.home / "tmp")}

    def start_worker(self, processes: Processes) -> None:
        (self.home / "tmp").mkdir(exist_ok=True)
        declared = self.declared["worker"]["command"]
        own = [part.replace("/tmp/", f"{self.home}/tmp/") for part in declared]
        command = [BIN / "airflow", *own]
        name = f"worker-{self.party}"
        processes.start(name, command, self.worker_environment, self.home)
