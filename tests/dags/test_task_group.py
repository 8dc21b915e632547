"""A federation as a task group between one's own tasks."""

import json
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import XComResult
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.task_group import (
    FederationTaskGroup,
    ScoreFederation,
    TrainFederation,
)
from opboost_ops.orchestration.pages.airflow import place_of
from tests.dags.conftest import ROOT, in_airflow
from tests.federation import Workspace

EXAMPLES = ROOT / "opboost_ops" / "orchestration" / "example_dags"
EXAMPLE = EXAMPLES / "nightly_credit.py"


def example(monkeypatch: pytest.MonkeyPatch, federations: Path) -> DAG:
    monkeypatch.setenv("CREDIT_FEDERATION", str(federations / "credit.yaml"))
    bag = DagBag(EXAMPLE, collect_dags=True)
    assert bag.import_errors == {}
    return bag.dags["nightly_credit"]


def test_it_holds_the_tasks_of_the_federations_own_dag(
    federations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = example(monkeypatch, federations)
    own = build_dags(federations)["credit_scoring_train"]
    assert {f"credit.{name}" for name in own.task_ids} == set(dag.task_ids) - {
        "refresh_tables",
        "tell_people",
    }
    for name in own.task_ids:
        theirs, ours = dag.get_task(f"credit.{name}"), own.get_task(name)
        for setting in ("queue", "owner", "retries", "execution_timeout"):
            assert getattr(theirs, setting) == getattr(ours, setting), (name, setting)
        assert theirs.on_failure_callback
        # By them pages and notes know whose task it is, within groups of people's own.
        assert place_of(f"credit.{name}") == (ours.owner, name.rpartition(".")[2])
    assert own.tags <= dag.tags
    assert dag.get_task("refresh_tables").downstream_task_ids == {"credit.credit_open.open_run"}
    assert (
        "tell_people" in dag.get_task("credit.credit_publish.announce_champion").downstream_task_ids
    )
    assert set(DagSerialization.from_dict(DagSerialization.to_dict(dag)).task_ids) == set(
        dag.task_ids
    )


def test_the_document_shows_these_very_files() -> None:
    text = (ROOT / "docs" / "airflow.md").read_text()
    for name in ("nightly_credit.py", "train_in_the_middle.py"):
        assert f"```python\n{(EXAMPLES / name).read_text()}```" in text


def test_a_dag_of_ones_own_triggers_a_training_and_defers() -> None:
    bag = DagBag(EXAMPLES / "train_in_the_middle.py", collect_dags=True)
    assert bag.import_errors == {}
    dag = bag.dags["train_in_the_middle"]
    train = dag.get_task("train")
    assert isinstance(train, TrainFederation)
    assert (train.trigger_dag_id, train.conf) == ("credit_scoring_train", {"trees": 3})
    assert (train.deferrable, train.wait_for_completion) == (True, True)
    assert train.downstream_task_ids == {"tell_people"}
    score = ScoreFederation(task_id="score", federation="credit_scoring")
    assert score.trigger_dag_id == "credit_scoring_score"


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ({"version": "0f", "champion": True}, False),
        ({"__classname__": "airflow.sdk.Connection", "__version__": 1, "__data__": {}}, True),
        ({"version": {"__type": "x", "__var": 1}}, True),
        (None, False),
    ],
)
def test_the_result_of_a_triggered_run_is_the_operators(
    monkeypatch: pytest.MonkeyPatch, value: Any, refused: bool
) -> None:
    train = TrainFederation(task_id="train", federation="credit_scoring")
    run, dag = "manual__1", "credit_scoring_train"
    ended = {"credit_open.open_run": "success", "credit_publish.register": "success"}

    def send(message: Any) -> XComResult:
        place = (message.key, message.task_id, message.dag_id, message.run_id)
        assert place == ("return_value", "credit_publish.register", dag, run)
        return XComResult(key=message.key, value=value)

    supervisor = SimpleNamespace(send=send)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    ti: Any = SimpleNamespace(get_task_states=lambda **_: {run: ended})
    event = ("trigger", {"run_ids": [run], run: "success"})
    with pytest.raises(ConfigError, match="was changed") if refused else nullcontext():
        assert train.execute_complete({"ti": ti}, event) == value
    with pytest.raises(AirflowException, match="failed"):
        train.execute_complete({"ti": ti}, ("trigger", {"run_ids": [run], run: "failed"}))


def test_a_federation_twice_in_a_dag_is_refused(federations: Path) -> None:
    with DAG("mine", schedule=None):
        FederationTaskGroup(federations / "credit.yaml")
        with pytest.raises(ConfigError, match="mine already has a task group of credit_scoring"):
            FederationTaskGroup(federations / "credit.yaml", "score")


def test_a_field_that_the_form_does_not_have_is_refused(federations: Path) -> None:
    with DAG("mine", schedule=None), pytest.raises(ConfigError, match="no field epsilno") as told:
        FederationTaskGroup(federations / "credit.yaml", form={"epsilno": 1})
    assert "trees" in str(told.value)


def test_owners_tags_and_times_of_ones_own_stay(federations: Path) -> None:
    with DAG("mine", schedule="@daily", start_date=datetime(2026, 1, 1), tags=["nightly"]) as dag:

        @task(owner="platform")
        def before() -> None:
            pass

        before() >> FederationTaskGroup(federations / "credit.yaml", default_args={"retries": 1})
    assert "nightly" in dag.tags
    assert dag.get_task("before").owner == "platform"
    assert dag.get_task("credit_scoring_train.bank_release.check_release").retries == 1


@pytest.mark.slow
def test_the_example_trains_what_the_form_says_and_tells_the_version(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path / "federation")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "nightly.py").write_text(EXAMPLE.read_text())
    run = (
        "import sys, json, time; from airflow.dag_processing.dagbag import DagBag\n"
        "sleep = time.sleep; time.sleep = lambda seconds: sleep(min(seconds, 0.01))\n"
        "run = DagBag().dags['nightly_credit'].test(run_conf={'trees': 3})\n"
        "tasks = {t.task_id: str(t.state) for t in run.get_task_instances()}\n"
        "open(sys.argv[1], 'w').write(json.dumps([str(run.state), tasks]))\n"
    )
    home = tmp_path / "airflow"
    home.mkdir()
    environment = {
        **workspace.environment(),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "CREDIT_FEDERATION": str(workspace.folder / "federation.yaml"),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(tmp_path / "lineage"), "append": True}
        ),
    }
    in_airflow(home, "-m", "airflow", "db", "migrate", **environment)
    told = in_airflow(home, "-c", run, tmp_path / "done", **environment)
    state, tasks = json.loads((tmp_path / "done").read_text())
    assert state == "success"
    assert set(tasks.values()) == {"success"}
    (card,) = (workspace.folder / "credit" / "models").rglob("card.json")
    assert json.loads(card.read_text())["training"]["trees"] == 3
    assert f"credit has version {card.parent.name}" in told
    lineage = (tmp_path / "lineage").read_text()
    # Of people's own DAG and tasks events are sent; of a federation's between them none.
    assert {json.loads(event)["job"]["name"] for event in lineage.splitlines()} == {
        "nightly_credit",
        "nightly_credit.refresh_tables",
        "nightly_credit.tell_people",
    }
    assert "federation.yaml" not in lineage
