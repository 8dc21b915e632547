"""docker/party in containers: three Airflows that share nothing but the store."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opboost_ops.exchange.manifest import JOINED, run_id
from opboost_ops.orchestration.deployment.client import Client
from tests.containers import parties, runs
from tests.containers.engine import Engine, Project
from tests.containers.images import Images
from tests.servers.conftest import free_port

pytestmark = pytest.mark.deployment

#: A folder that all reach stands for a store in S3.
STORE = """
services:
  scheduler:
    volumes:
      - {store}:/exchange
"""


@pytest.fixture(scope="module")
def airflows(engine: Engine, images: Images, place: Path) -> Iterator[dict[str, Project]]:
    files = parties.own_airflows(place / "airflows", rows=2000, training={"trees": 10})
    store = place / "exchange"
    store.mkdir()
    parties.own(store, parties.OWN_AIRFLOW)
    override = place / "store.yaml"
    override.write_text(STORE.format(store=store))
    projects = {}
    for party, file in files.items():
        variables = {**images.variables, "PORT": free_port()}
        projects[party] = Project(engine, f"opboost-test-{party}", [file, override], variables)
    try:
        for project in projects.values():
            project.down()  # What an interrupted session may have left.
            project.up(400)
        yield projects
    finally:
        for project in projects.values():
            project.down()


def client(project: Project, *dags: str) -> Client:
    keys = project.files[0].parent / "keys" / "passwords.json"
    password = json.loads(keys.read_text())["admin"]
    return runs.client_of(int(project.values["PORT"]), password, *dags)


def test_three_airflows_train_together(airflows: dict[str, Project]) -> None:
    join = "credit_scoring_join"
    clients = {party: client(airflows[party], join) for party in ("bank", "shop")}
    opener = client(airflows["credit"])
    run = opener.trigger(runs.TRAIN)
    runs.ended(opener, runs.TRAIN, run, airflows["credit"].told)
    joined = f"{JOINED}{run_id(runs.TRAIN, run)}"
    for party, own in clients.items():
        tasks = runs.ended(own, runs.TRAIN, joined, airflows[party].told)
        assert {task["task_id"].partition("_")[0] for task in tasks} == {party}
