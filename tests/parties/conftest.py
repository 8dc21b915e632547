"""One warm Airflow with a worker for each party, as unix users of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from opboost_ops.orchestration.client import Client
from opboost_ops.orchestration.parties.topology import FOLDER, Topology

#: Federations that are trained at once; one more is for a run whose worker is absent.
AT_ONCE = 20

#: Name of the first; the others are numbered from 2.
NAME = "credit_scoring"

#: Seconds within which a run must end where the worker of a party is absent.
PATIENCE = 60


def absent() -> str:
    """The federation whose runs end soon."""
    return f"{NAME}_{AT_ONCE + 1}"


@pytest.fixture(scope="session")
def topology() -> Iterator[Topology]:
    topology = Topology(
        Path("/srv/opboost-parties-tests"),
        prefix="opboost-tests",
        rows=300,
        training={"trees": 5},
        copies=AT_ONCE + 1,
        coordinator_settings={"dag_processor.min_file_process_interval": 60},
        # Shared with `make parties-up`: it is the same for the same code.
        environment=FOLDER / "environment",
    )
    topology.remove()  # What an interrupted session may have left.
    try:
        with topology:
            file = topology.places.federations / f"{absent()}.yaml"
            declared = yaml.safe_load(file.read_text())
            declared["schedule"] = {"timeout_hours": PATIENCE / 3600}
            file.write_text(yaml.safe_dump(declared, sort_keys=False))
            yield topology
    finally:
        topology.remove()


@pytest.fixture(scope="session")
def client(topology: Topology) -> Client:
    client = topology.client()
    client.http.timeout = 300  # The machine may be a busy one.
    return client
