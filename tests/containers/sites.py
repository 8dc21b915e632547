"""A coordinator and three sites for `docker/compose.coordinator.yaml` and `compose.site.yaml`."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import boto3
import pytest

from opboost_ops.orchestration.sites.keys import write_sites
from opboost_ops.orchestration.sites.maps import write_maps
from tests.containers.parties import own
from tests.deployments import PARTIES, write_deployment
from tests.unit.exchange.conftest import serving

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
    with serving(host) as url:
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(name)
            given = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
            client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **given)
            client.create_bucket(Bucket=_BUCKET)
        yield url


def prepare(root: Path, store: str, training: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Write what lies beside the compose files, as docs/sites.md says; the variables of each."""
    federations = write_deployment(
        root, f"s3://{_BUCKET}/exchange", training=training, queue="queue.{}"
    )
    write_sites(root / "keys", PARTIES, [PROXY])
    write_maps(federations, root / "maps")
    own(root / "keys" / "coordinator", USER)
    coordinator = {"KEYS": root / "keys" / "coordinator", "MAPS": root / "maps"}
    found: dict[str, dict[str, object]] = {"coordinator": dict(coordinator)}
    for party in PARTIES:
        home = root / "homes" / party
        _ready(home, store)
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


def _ready(home: Path, store: str) -> None:
    """How the party logs in to the exchange."""
    (home / "secrets").mkdir()
    (home / "secrets" / "aws.config").write_text(
        f"[default]\nregion = us-east-1\nendpoint_url = {store}\n"
    )
    (home / "secrets" / "aws.credentials").write_text(
        "[default]\naws_access_key_id = key\naws_secret_access_key = secret\n"
    )
    own(home, USER)
