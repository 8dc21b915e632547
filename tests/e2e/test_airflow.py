"""The DAGs on a real scheduler, seen through the REST API."""

import re
import time
from pathlib import Path

import httpx
import pytest

from opboost_ops.cli.airflow import follow
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.e2e.conftest import OTHERS
from tests.waiting import ended, errors, until

pytestmark = pytest.mark.slow

DAG = "credit_scoring_train"

ROOT = Path(__file__).resolve().parents[2]


def test_a_run_through_all_stages(airflow: Standalone, client: Client, workspace: Path) -> None:
    finished = follow(airflow, client, workspace / "federation.yaml", lambda *_: None)
    assert set(finished.summaries) == {"credit", "shop", "bank"}
    assert "version" in finished.summaries["credit"]["register"]


def test_no_task_waits_until_what_it_talks_to_has_made_its_routes(
    airflow: Standalone, client: Client
) -> None:
    del client  # It is up.
    log = (airflow.home / "output" / "tasks-api.log").read_text()
    asked = re.findall(r"request finished .* path=(\S+)", log)
    assert asked[0] == "/execution/health"


def test_the_form_reaches_the_plan(client: Client, workspace: Path) -> None:
    run = client.trigger(DAG, {"trees": 3})
    assert ended(client, DAG, run) == "success"
    assert client.run(DAG, run)["conf"]["trees"] == 3
    version = client.summary(DAG, run, "credit_publish.register")
    (model,) = workspace.glob(f"credit/models/credit_scoring/{version['version']}*/model.txt")
    assert model.read_text().count("Tree=") == 3


@pytest.mark.parametrize("form", [{"trees": 0}, {"depth": 99}, {"learning_rate": "0,5"}])
def test_a_form_out_of_range_starts_nothing(client: Client, form: dict[str, object]) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        client.trigger(DAG, form)


def test_the_second_of_two_runs_waits_while_people_act(client: Client) -> None:
    first, second = client.trigger(DAG), client.trigger(DAG)
    seen = set()
    while (pair := (client.run(DAG, first)["state"], client.run(DAG, second)["state"])) != (
        "success",
        "success",
    ):
        seen.add(pair)
        assert pair != ("running", "running")
        assert "failed" not in pair
        # Goes into Airflow's audit log, in the database to which the tasks write as well.
        client.http.patch(f"/api/v2/dags/{DAG}", json={"is_paused": False}).raise_for_status()
        time.sleep(0.1)
    assert ("running", "queued") in seen


def test_a_broken_file_says_all_its_faults(client: Client) -> None:
    run = client.trigger("broken_train")
    assert ended(client, "broken_train", run) == "failed"
    (message,) = errors(client, "broken_train", run).values()
    assert "broken.yaml" in message
    assert "domain" in message


def test_training_in_the_middle_of_a_dag_of_ones_own(airflow: Standalone, client: Client) -> None:
    example = (ROOT / "opboost_ops/orchestration/example_dags/train_in_the_middle.py").read_text()
    (airflow.home / OTHERS / "middle.py").write_text(example.replace('"@daily"', "None"))
    dag = "train_in_the_middle"
    until(lambda: client.has_dag(dag), dag, 120)
    run = client.trigger(dag)
    assert ended(client, dag, run) == "success"
    trained = client.summary(dag, run, "train")
    assert {"version", "champion"} <= set(trained)
    path = f"dags/{dag}/dagRuns/{run}/taskInstances/tell_people/xcomEntries/return_value"
    assert str(trained["version"]) in client.get(path)["value"]
