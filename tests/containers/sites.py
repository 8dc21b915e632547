"""A coordinator and three sites for `docker/compose.coordinator.yaml` and `compose.site.yaml`."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
import pytest
import yaml
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from opboost_ops.config.loading import load_federation, load_site
from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import dump, write_workspace
from opboost_ops.orchestration.sites.keys import write_sites
from opboost_ops.orchestration.sites.maps import write_maps
from opboost_ops.run.agreement import agree
from tests.containers.parties import PARTIES, own
from tests.unit.exchange.conftest import Quiet

#: The user of all these containers, unless CONTAINER_USER says another.
USER = 10001

#: By which sites call the coordinator's proxy.
PROXY = "proxy"

_BUCKET = "sites"


def address() -> str:
    """By which this machine is called from its containers; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.254", 9))
        return str(probe.getsockname()[0])


@contextlib.contextmanager
def exchange(host: str) -> Iterator[str]:
    """URL of a server that speaks S3, which all sites reach."""
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(host, 0, application, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://{host}:{server.server_port}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(name)
            given = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
            client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **given)
            client.create_bucket(Bucket=_BUCKET)
        yield url
    finally:
        server.shutdown()
        thread.join()


def prepare(root: Path, store: str, training: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Write what lies beside the compose files, as docs/sites.md says; the variables of each."""
    file = write_workspace(load("credit", rows=2000), root / "homes", training=training)
    data = yaml.safe_load(file.read_text())
    for party in PARTIES:
        data["parties"][party]["queue"] = f"queue.{party}"
    federations = root / "federations"
    federations.mkdir()
    file.unlink()
    dump(federations / "credit.yaml", data)
    write_sites(root / "keys", PARTIES, [PROXY])
    write_maps(federations, root / "maps")
    own(root / "keys" / "coordinator", USER)
    coordinator = {"KEYS": root / "keys" / "coordinator", "MAPS": root / "maps"}
    found: dict[str, dict[str, object]] = {"coordinator": dict(coordinator)}
    for party in PARTIES:
        home = root / "homes" / party
        _ready(home, federations / "credit.yaml", store)
        own(root / "keys" / party, USER)
        found[party] = {
            "COORDINATOR": PROXY,
            "PROXY_PORT": 8443,
            "KEYS": root / "keys" / party,
            "PARTY": party.upper(),
            "PARTY_FOLDER": home,
            "QUEUE": f"queue.{party}",
            "WORKER": party,
        }
    return {name: {**values, "FEDERATIONS": federations} for name, values in found.items()}


def _ready(home: Path, federation: Path, store: str) -> None:
    """The party's own: where the exchange is, how it logs in there, and what it agrees to."""
    site = yaml.safe_load((home / "site.yaml").read_text())
    dump(home / "site.yaml", {**site, "store": f"s3://{_BUCKET}/exchange"})
    (home / "secrets").mkdir()
    (home / "secrets" / "aws.config").write_text(
        f"[default]\nregion = us-east-1\nendpoint_url = {store}\n"
    )
    (home / "secrets" / "aws.credentials").write_text(
        "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"
    )
    agree(load_site(home / "site.yaml"), load_federation(federation))
    own(home, USER)
