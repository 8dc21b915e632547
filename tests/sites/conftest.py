"""A coordinator behind its proxy, and three sites that only call out, as the compose files say."""

import contextlib
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

import httpx
import pytest
import yaml

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

    def members(self) -> list[int]:
        sessions = {process.pid for process in self.running.values()}
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) in sessions and fields[0] != "Z":
                    found.append(int(stat.parent.name))
        return found

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 5
            while (left := self.members()) and time.monotonic() < deadline:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                for process in self.running.values():
                    process.poll()
                time.sleep(0.1)
        for process in self.running.values():
            process.wait()


@dataclass
class Sites:
    """What runs."""

    root: Path
    airflow: Standalone
    client: Client
    proxy: str
    processes: Processes

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    def home(self, party: str) -> Path:
        return self.root / "sites" / party

    def caller(self, party: str | None, keys: Path | None = None) -> httpx.Client:
        """A client of the proxy that shows a party's certificate; none without a party."""
        context = ssl.create_default_context(cafile=self.keys / "coordinator" / "ca.pem")
        if party:
            context.load_cert_chain((keys or self.keys) / party / "client.pem")
        return httpx.Client(base_url=self.proxy, verify=context, trust_env=False, timeout=60)


@pytest.fixture(scope="session")
def sites(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Sites]:
    haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if haproxy is None:
        pytest.fail("HAProxy is missing: install the package haproxy.")
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
            command = [haproxy, "-f", config]
            processes.start("proxy", command, {**compose.bare(), **proxy}, root)
            client = airflow.client()
            until(lambda: client.has_dag("credit_scoring_score"), "DAGs")
            for party in PARTIES:
                _site(processes, root, party, haproxy, address)
            for party in PARTIES:
                until(lambda party=party: processes.beats(party), f"the worker of {party}")
            yield Sites(root, airflow, client, f"https://{address}", processes)
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


def _site(processes: Processes, root: Path, party: str, haproxy: str, address: str) -> None:
    values = {
        "PARTY": party.upper(),
        "WORKER": party,
        "QUEUE": f"queue.{party}",
        "COORDINATOR": "127.0.0.1",
    }
    declared = compose.services("site", values)
    home, tunnel = root / "sites" / party, f"127.0.0.1:{free_port()}"
    (home / "tmp").mkdir()
    places = {
        "/run/secrets": root / "keys" / party,
        "/federations": root / "federations",
        "/dags": compose.FOLDER.parent / "dags",
        "/settings": compose.FOLDER / "site",
        "127.0.0.1:8793": tunnel,
        "127.0.0.1:8443": address,
        "=/site/": f"={home}/",
    }
    environment = compose.moved(compose.environment(declared["tunnel"]), places)
    config = compose.FOLDER / "site" / "haproxy.cfg"
    processes.start(
        f"tunnel-{party}", [haproxy, "-f", config], {**compose.bare(), **environment}, home
    )
    environment = compose.moved(compose.environment(declared["worker"]), places)
    for name, value in environment.items():
        if value.startswith("/site/"):
            environment[name] = str(home / value.removeprefix("/site/"))
    worker = declared["worker"]
    command = [BIN / "airflow", *worker["command"]]
    processes.start(
        f"worker-{party}",
        command,
        {**compose.bare(BIN), "TMPDIR": str(home / "tmp"), **environment},
        home,
    )
