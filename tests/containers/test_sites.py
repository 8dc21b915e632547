"""Sites that only call out, in containers: a coordinator behind its proxy, and three sites."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opboost_ops.orchestration.client import Client
from tests.containers import runs, sites
from tests.containers.engine import Engine, Project, until
from tests.containers.images import ROOT, Images
from tests.containers.parties import PARTIES
from tests.servers.conftest import free_port

pytestmark = pytest.mark.deployment


@dataclass(frozen=True)
class Running:
    """The projects, and who is logged in at the coordinator."""

    coordinator: Project
    own: dict[str, Project]
    client: Client

    def told(self) -> str:
        """What all of them print."""
        return "\n".join(each.told() for each in (self.coordinator, *self.own.values()))


@pytest.fixture(scope="module")
def running(engine: Engine, images: Images, place: Path) -> Iterator[Running]:
    host = sites.address()
    with contextlib.ExitStack() as ending:
        store = ending.enter_context(sites.exchange(host))
        values = sites.prepare(place / "sites", host, store, {"trees": 10})
        ports = {"PORT": free_port(), "PROXY_PORT": free_port()}
        projects = {}
        for name, own in values.items():
            file = ROOT / "docker" / f"compose.{'site' if name in PARTIES else name}.yaml"
            soon = [] if name in PARTIES else [Path(__file__).with_name("soon.yaml")]
            variables = {**own, **ports, **images.variables}
            project = Project(engine, f"opboost-test-{name}", [file, *soon], variables)
            project.down()  # What an interrupted session may have left.
            ending.callback(project.down)
            projects[name] = project
        coordinator = projects.pop("coordinator")
        coordinator.up(400)
        for service in ("api-server", "scheduler", "dag-processor", "proxy"):
            until(lambda s=service: coordinator.is_well(s), f"{service} to be well", 180)
        for project in projects.values():
            project.up(120)
        keys = Path(coordinator.values["KEYS"])
        password = json.loads((keys / "passwords.json").read_text())["admin"]
        client = runs.client_of(ports["PORT"], password)
        yield Running(coordinator, projects, client)


def test_three_sites_train_and_score_although_a_worker_is_killed(running: Running) -> None:
    client = running.client
    task = "bank_release.desensitize"
    trained = runs.train_beside_a_crash(client, running.own["bank"], "worker", task)
    for entry in (*trained, *runs.scored(client, running.told)):
        party = entry["task_id"].partition("_")[0]
        assert (entry["queue"], entry["hostname"]) == (f"queue.{party}", party)
    for party, project in running.own.items():
        home = Path(project.values["PARTY_FOLDER"])
        # Logs are at home, and readable there by their party alone.
        logs = list((home / "airflow" / "logs").rglob("attempt=*.log"))
        assert logs, party
        assert {log.stat().st_mode & 0o077 for log in logs} == {0}
        # What the worker asked for, the proxy allowed.
        said = project.output("tunnel").splitlines()
        assert said
        assert [line for line in said if line.endswith(" 403")] == []
        # The worker has no certificate, and its tunnel no data.
        assert "No such file" in project.refused("worker", "cat", "/run/secrets/client.pem")
        assert "No such file" in project.refused("tunnel", "ls", "/site")
