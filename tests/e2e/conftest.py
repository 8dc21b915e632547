"""A real Airflow with two good federations and a broken one."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import agree_for_all, write_workspace
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.browser import logged_in
from tests.verifier.ending import assert_promises_held

PARTIES = ("credit", "shop", "bank")

#: The folder of other people's DAGs in the AIRFLOW_HOME.
OTHERS = "others"
_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"

#: Airflow's simple login lets anyone who may read anything read plugins; larger ones ask by name.
READER = "reader"
#: One who may see and edit the DAGs of the federation `pooled` alone.
NARROW = "narrow"
_READERS = f"""
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

class Readers(SimpleAuthManager):
    def is_authorized_view(self, *, access_view, user):
        if access_view == AccessView.PLUGINS and user.get_name() == "{READER}":
            return False
        return super().is_authorized_view(access_view=access_view, user=user)

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        if user.get_name() == "{NARROW}" and not (details and "second" in (details.id or "")):
            return False
        return super().is_authorized_dag(
            method=method, user=user, access_entity=access_entity, details=details
        )
"""
_SETTINGS = {
    "AIRFLOW__CORE__AUTH_MANAGER": "readers.Readers",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,{READER}:viewer,{NARROW}:user",
    "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
}


@pytest.fixture(scope="package", autouse=True)
def verified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Verify all federations of these tests, once every Airflow has ended."""
    base = tmp_path_factory.getbasetemp()
    others = set(base.iterdir())
    yield
    assert_promises_held(set(base.iterdir()) - others)


@pytest.fixture(scope="package")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("e2e") / "credit"
    file = write_workspace(load("credit", rows=2000), folder, training={"trees": 20})
    data: dict[str, Any] = yaml.safe_load(file.read_text())
    # Looked at by hand in the tests; by itself on the first of January alone.
    data["schedule"] = {"on_tables": "0 0 1 1 *"}
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    del data["schedule"]
    # A reader of this federation alone reads nothing of a column that only the first one has.
    data["name"] = "second"
    del data["parties"]["bank"]["features"]["income"]
    (folder / "second.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    agree_for_all(folder / "second.yaml")
    data["name"] = "broken"
    data["domain"] = {"lower": 10, "upper": 1}
    (folder / "broken.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small federation of three parties, for tests with an Airflow of their own."""
    made = tmp_path_factory.mktemp("parties") / "credit"
    write_workspace(load("credit", rows=1000), made, seed=0, training={"trees": 10})
    return made


@pytest.fixture(scope="package")
def airflow(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    sites = {party: workspace / party / "site.yaml" for party in PARTIES}
    home = tmp_path_factory.mktemp("airflow")
    components = ("scheduler", "api-server", "dag-processor", "triggerer")
    (home / "config").mkdir()
    (home / "config" / "readers.py").write_text(_READERS)
    (home / OTHERS).mkdir()
    bundles = [
        {"name": name, "classpath": _BUNDLE, "kwargs": kwargs}
        for name, kwargs in (("dags-folder", {}), (OTHERS, {"path": str(home / OTHERS)}))
    ]
    settings = {
        **_SETTINGS,
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
    }
    with Standalone(home, workspace, sites, components, environment=settings) as running:
        yield running
        with contextlib.suppress(OSError):
            (home / "output" / "scheduler.log").read_text()


@pytest.fixture(scope="module")
def page(airflow: Standalone, client: Client) -> Iterator[Any]:
    with logged_in(airflow) as page:
        yield page


@pytest.fixture(scope="package")
def client(airflow: Standalone) -> Client:
    client = airflow.client()
    for dag in ("credit_scoring_train", "second_train", "broken_train"):
        while not client.has_dag(dag):
            airflow.check()
    return client
