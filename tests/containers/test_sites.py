"""Outbound-only sites in containers: a coordinator behind its proxy, and three sites."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opboost_ops.orchestration.client import Client
from tests.containers import runs, sites
from tests.containers.engine import Engine, Project
from tests.containers.images import ROOT, Images
from tests.deployments import PARTIES
from tests.servers.conftest import free_port
from tests.waiting import until

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
def running(engine: Engine, images_of_sites: Images, place: Path) -> Iterator[Running]:
    with contextlib.ExitStack() as ending:
        store = ending.enter_context(sites.exchange(sites.address()))
        values = sites.prepare(place / "sites", store, {"trees": 10})
        values["coordinator"] |= {"PORT": free_port(), "PROXY_PORT": free_port()}
        network = {"COORDINATORS_NETWORK": "opboost-test-coordinator_sites"}
        projects = {}
        for name, own in values.items():
            beside = "one-machine" if name in PARTIES else "soon"
            files = [
                ROOT / "docker" / f"compose.{'site' if name in PARTIES else name}.yaml",
                Path(__file__).with_name(f"{beside}.yaml"),
            ]
            variables = {**own, **network, **images_of_sites.variables}
            project = Project(engine, f"opboost-test-{name}", files, variables)
            ending.callback(project.down)
            projects[name] = project
        for project in reversed(projects.values()):
            project.down()  # What an interrupted session may have left.
        coordinator = projects.pop("coordinator")
        coordinator.up(400)
        for service in ("api-server", "scheduler", "dag-processor", "proxy"):
            until(lambda s=service: coordinator.is_well(s), f"{service} to be well", 180)
        for project in projects.values():
            project.up(120)
        for party, project in projects.items():
            # A run that begins before is told that nobody listens.
            beat = f"PATCH /edge_worker/v1/worker/{party} 200"
            until(lambda p=project, b=beat: b in p.output("tunnel"), f"{party}'s worker", 180)
        keys = Path(coordinator.values["KEYS"])
        password = json.loads((keys / "passwords.json").read_text())["admin"]
        client = runs.client_of(int(coordinator.values["PORT"]), password)
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
