"""A coordinator behind its proxy, and three outbound-only sites, as the compose files say."""

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.auth.tokens import JWTGenerator

from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.sites.keys import write_sites
from opboost_ops.orchestration.sites.maps import write_maps
from opboost_ops.orchestration.standalone import Standalone
from tests.deployments import PARTIES, write_deployment
from tests.processes import Processes
from tests.programs import program
from tests.servers.conftest import free_port
from tests.servers.conftest import postgres_server as postgres_server
from tests.sites import compose
from tests.waiting import until

BIN = Path(sys.executable).parent


def _beats(processes: Processes, party: str) -> bool:
    """Whether a party's worker has told that it is up."""
    assert processes.running[f"worker-{party}"].poll() is None, processes.output(f"worker-{party}")
    return f"PATCH /edge_worker/v1/worker/{party} 200" in processes.output(f"tunnel-{party}")


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
        certificate = (keys or self.keys) / party if party else None
        return _asked(to_proxy(self.proxy, self.keys, certificate), method, path, body, token)

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


def to_proxy(address: str, keys: Path, party: Path | None) -> http.client.HTTPSConnection:
    """A connection with the certificate in a party's folder."""
    context = ssl.create_default_context(cafile=keys / "coordinator" / "ca.pem")
    if party:
        context.load_cert_chain(party / "client.pem")
    host, port = address.split(":")
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


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


def written(root: Path, **training: Any) -> dict[str, object]:
    """Write federations, keys and maps; where the coordinator's containers have them."""
    federations = write_deployment(
        root, str(root / "exchange"), training=training, queue="queue.{}"
    )
    write_sites(root / "keys", PARTIES, ["127.0.0.1"])
    write_maps(federations, root / "maps")
    return {"/run/secrets": root / "keys" / "coordinator", "/maps": root / "maps"}


def start_proxy(processes: Processes, places: Mapping[str, object], address: str, to: str) -> None:
    """Start the coordinator's proxy before an API server."""
    declared = compose.environment(compose.services("coordinator")["proxy"])
    environment = compose.bare() | compose.moved(declared, places)
    environment |= {"PROXY_ADDRESS": address, "API_SERVER": to}
    config = compose.FOLDER / "coordinator" / "haproxy.cfg"
    processes.start("proxy", [program("haproxy"), "-f", config], environment, processes.logs)


@pytest.fixture(scope="session")
def sites(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Sites]:
    program("haproxy")
    root = tmp_path_factory.mktemp("outgoing")
    places = written(root, trees=10)
    (root / "exchange").mkdir()
    (root / "logs").mkdir()
    processes = Processes(root / "logs")
    address = f"127.0.0.1:{free_port()}"
    declared = compose.services("coordinator")
    environment = {
        name: value
        for name, value in compose.moved(compose.environment(declared["scheduler"]), places).items()
        if name.startswith(("AIRFLOW__EDGE__", "AIRFLOW__API_AUTH__")) or name in _COORDINATOR
    }
    server = request.getfixturevalue("postgres_server").replace("+psycopg:", "+psycopg2:")
    environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"{server}/postgres"
    airflow = Standalone(root / "airflow", root / "federations", {}, environment=environment)
    try:
        with airflow:
            start_proxy(processes, places, address, airflow.url.removeprefix("http://"))
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
                until(lambda party=party: _beats(processes, party), f"the worker of {party}")
            yield Sites(root, airflow, client, address, processes, own)
    finally:
        processes.stop()


#: Settings of the coordinator's containers that hold here, too; others name hosts and folders.
_COORDINATOR = ("AIRFLOW__CORE__EXECUTOR", "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS")


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
        self.home = root / "homes" / party
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
        command = [program("haproxy"), "-f", config]
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
