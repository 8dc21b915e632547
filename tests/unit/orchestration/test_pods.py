"""Pods of parties' tasks: what the KubernetesExecutor makes of them, and what is refused."""

import copy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator
from airflow.sdk import DAG
from kubernetes.client import ApiClient

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import dump, write_workspace
from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.pods import FOLDER, pod_override

PARTIES = ("bank", "credit", "shop")
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "pods" / "bank.yaml"
VERSIONS = ("1.30", "1.37")

#: As a template for all pods, in part: the party's is put over it.
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "base",
                "image": "opboost-ops",
                "env": [{"name": "OPBOOST_FEDERATIONS", "value": "/federations"}],
                "volumeMounts": [{"name": "federations", "mountPath": "/federations"}],
            }
        ],
        "volumes": [{"name": "federations", "configMap": {"name": "federations"}}],
    },
}


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example for each party's queue."""
    folder = tmp_path / "pods"
    folder.mkdir()
    for party in PARTIES:
        text = EXAMPLE.read_text().replace("bank", party).replace("BANK", party.upper())
        (folder / f"queue.{party}.yaml").write_text(text)
    monkeypatch.setenv(FOLDER, str(folder))
    return folder


def dags(root: Path) -> dict[str, DAG]:
    file = write_workspace(load("credit", rows=60), root / "credit")
    data = yaml.safe_load(file.read_text())
    for party in PARTIES:
        data["parties"][party]["queue"] = f"queue.{party}"
    data["schedule"] = {"on_tables": "0 3 * * *"}
    dump(file, data)
    return build_dags(root)


def made(task: Any) -> dict[str, Any]:
    """The pod that the executor would ask Kubernetes for."""
    pod = PodGenerator.construct_pod(
        dag_id=task.dag_id,
        task_id=task.task_id,
        pod_id="a-task-of-a-party",
        try_number=1,
        kube_image="opboost-ops",
        date=None,
        args=["airflow", "tasks"],
        pod_override_object=PodGenerator.from_obj(copy.deepcopy(task.executor_config)),
        base_worker_pod=PodGenerator.deserialize_model_dict(copy.deepcopy(TEMPLATE)),
        namespace="airflow",
        scheduler_job_id="1",
        run_id="run",
    )
    found: dict[str, Any] = ApiClient().sanitize_for_serialization(pod)
    return found


def test_each_tasks_pod_is_its_partys(pods: Path, tmp_path: Path) -> None:
    tasks = [task for dag in dags(tmp_path / "f").values() for task in dag.tasks]
    assert len(tasks) > 40
    for task in tasks:
        named = task.executor_config["pod_override"].spec.service_account_name
        assert f"queue.{named.removeprefix('opboost-')}" == task.queue
    for party in PARTIES:
        pod = made(next(task for task in tasks if task.queue == f"queue.{party}"))
        for version in VERSIONS if party == "bank" else VERSIONS[:1]:
            kubernetes_validate.validate(pod, version, strict=True)
        (container,) = pod["spec"]["containers"]
        sites = {entry["name"] for entry in container["env"] if "SITE" in entry["name"]}
        assert sites == {f"OPBOOST_SITE_{party.upper()}"}
        claims = [v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if "site" in v["name"]]
        assert claims == [{"claimName": f"opboost-{party}"}]
        # What is the template's stays.
        assert container["image"] == "opboost-ops"
        assert {m["mountPath"] for m in container["volumeMounts"]} >= {"/federations", "/site"}


def test_the_judge_finds_a_pod_that_kubernetes_would_not_take(pods: Path, tmp_path: Path) -> None:
    pod = made(dags(tmp_path / "f")["credit_scoring_train"].tasks[0])
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = ["much"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, VERSIONS[0], strict=True)


def test_nothing_is_said_of_pods_where_no_folder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    assert pod_override("bank") == {}


def test_a_queue_without_a_pod_makes_no_dag(pods: Path, tmp_path: Path) -> None:
    (pods / "queue.shop.yaml").unlink()
    made = dags(tmp_path / "f")
    assert all("invalid" in dag.tags for dag in made.values())
    assert "OPBOOST_PODS has no file queue.shop.yaml" in made["credit_scoring_train"].doc_md


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("[]", ["is not a mapping"]),
        ("a: [", ["is not YAML"]),
        ("kind: Deployment", ["kind: is not a v1 Pod", "the first is not base"]),
        (
            "{apiVersion: v1, kind: Pod, spec: {containers: [{name: base, volumeMount: []}],"
            " hostNetwrk: true}}",
            ["spec.containers.0.volumeMount", "spec.hostNetwrk"],
        ),
    ],
)
def test_a_faulty_pod_is_refused_with_all_its_faults(
    pods: Path, wrong: str, words: list[str]
) -> None:
    (pods / "queue.bank.yaml").write_text(wrong)
    with pytest.raises(ConfigError) as caught:
        pod_override("queue.bank")
    assert [word for word in ["queue.bank.yaml", *words] if word not in str(caught.value)] == []
