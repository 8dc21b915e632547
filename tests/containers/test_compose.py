"""docker/one-airflow in containers: brought up, trained, a worker killed, scored."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import parties, runs
from tests.containers.engine import Engine, Project
from tests.containers.images import Images
from tests.deployments import PARTIES
from tests.servers.conftest import free_port
from tests.waiting import until

pytestmark = pytest.mark.deployment

LASTING = (
    "postgres",
    "redis",
    "api-server",
    "scheduler",
    "dag-processor",
    *(f"worker-{party}" for party in PARTIES),
)


@pytest.fixture(scope="module")
def project(engine: Engine, images: Images, place: Path) -> Iterator[Project]:
    file = parties.one_airflow(place / "parties", rows=2000, training={"trees": 10})
    files = [file, Path(__file__).with_name("soon.yaml")]
    variables = {**images.variables, "PORT": free_port()}
    project = Project(engine, "opboost-test-parties", files, variables)
    project.down()  # What an interrupted session may have left.
    try:
        project.up(400)
        for service in LASTING:
            until(lambda service=service: project.is_well(service), f"{service} to be well", 180)
        yield project
    finally:
        project.down()


def test_three_parties_train_and_score_although_a_worker_is_killed(project: Project) -> None:
    folder = project.files[0].parent
    password = json.loads((folder / "keys" / "passwords.json").read_text())["admin"]
    client = runs.client_of(int(project.values["PORT"]), password)
    task = "bank_release.desensitize"
    trained = runs.train_beside_a_crash(client, project, "worker-bank", task)
    scored = runs.scored(client, project.told)
    for entry in (*trained, *scored):
        # Each on its own party's worker, and in its container.
        assert entry["task_id"].startswith(f"{entry['queue']}_")
    hosts = {entry["queue"]: entry["hostname"] for entry in scored}
    assert set(hosts) == set(PARTIES)
    assert len(set(hosts.values())) == len(PARTIES)
    for number, party in enumerate(PARTIES, parties.FIRST):
        home = folder / "parties" / party
        assert {path.stat().st_uid for path in home.rglob("*")} == {number}
        assert list((home / "airflow" / "logs").rglob("attempt=*.log"))
        # Everything that it made lies in its home and the exchange: nothing else can be written.
        assert "Read-only" in project.refused(f"worker-{party}", "touch", "/usr/local/opboost/x")


def test_no_container_is_root_or_has_a_capability(project: Project) -> None:
    for service in LASTING:
        said = project.inside(service, "cat", "/proc/self/status")
        fields = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
        assert "0" not in fields["Uid"].split(), service
        assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}, service
        assert fields["NoNewPrivs"].strip() == "1", service


def test_a_party_cannot_reach_what_is_anothers(project: Project) -> None:
    # Names of the other parties' networks, of the database, and of the world outside.
    ask = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    reach = ("/usr/local/opboost/bin/python", "-I", "-c", ask)
    project.inside("worker-bank", *reach, "redis", "6379")
    for host, port in (("postgres", "5432"), ("worker-shop", "8793"), ("192.0.2.1", "80")):
        said = project.refused("worker-bank", *reach, host, port)
        assert "error" in said.lower(), (host, said)
