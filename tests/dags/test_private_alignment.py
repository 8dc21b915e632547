"""Private alignment in the DAGs: two more tasks at the label holder and a phase of the holders."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG

from opboost_ops.orchestration.dags import build_dags

NAME = "credit_scoring"


@pytest.fixture
def private(federations: Path) -> Path:
    path = federations / "credit.yaml"
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    data["alignment"] = "private"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return federations


def tasks(dag: DAG, group: str) -> list[str]:
    return [t.partition(".")[2] for t in dag.task_ids if t.partition(".")[0] == group]


@pytest.mark.parametrize("purpose", ["train", "score"])
def test_the_query_comes_before_the_answers_and_these_before_the_alignment(
    private: Path, purpose: str
) -> None:
    dag = build_dags(private)[f"{NAME}_{purpose}"]
    assert "psi_query" in tasks(dag, "credit_open")
    order = [group.node_id for group in dag.task_group.topological_sort()]
    for holder in ("bank", "shop"):
        assert tasks(dag, f"{holder}_psi") == ["psi_answer"]
        answer = dag.get_task(f"{holder}_psi.psi_answer")
        before = answer.get_flat_relative_ids(upstream=True)
        assert "credit_open.psi_query" in before
        # Digests are made beside the query, not after it.
        digests = dag.get_task(f"{holder}_ids.digest_ids")
        assert "credit_open.psi_query" not in digests.get_flat_relative_ids(upstream=True)
        align = dag.get_task("credit_align.align").get_flat_relative_ids(upstream=True)
        assert {answer.task_id, digests.task_id} <= align
        assert order.index("credit_open") < order.index(f"{holder}_psi") < order.index(
            "credit_align"
        )  # fmt: skip


def test_each_airflow_waits_for_what_comes_from_another(private: Path) -> None:
    def waits(dag: DAG) -> dict[str, list[str]]:
        return {t.task_id: t.op_kwargs["wanted"] for t in dag.tasks if ".wait_for_" in t.task_id}

    alone, bank = (build_dags(private, [party])[f"{NAME}_train"] for party in ("credit", "bank"))
    (wanted,) = (kinds for task, kinds in waits(alone).items() if task.startswith("credit_align"))
    assert sorted(wanted) == ["digests/bank", "digests/shop", "psi_answer/bank", "psi_answer/shop"]
    assert waits(bank)["bank_psi.wait_for_psi_query"] == ["psi_query/bank"]


@pytest.fixture
def decoys(private: Path) -> Path:
    path = private / "credit.yaml"
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    data["alignment"] = {"mode": "private", "decoys": "all"}
    del data["parties"]["shop"]
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return private


@pytest.mark.parametrize("purpose", ["train", "score"])
def test_with_decoys_a_feature_holder_waits_for_nothing_of_the_alignment(
    decoys: Path, purpose: str
) -> None:
    dag = build_dags(decoys)[f"{NAME}_{purpose}"]
    assert dag.task_group.topological_sort()
    released = tasks(dag, "bank_release")
    assert released == ["preprocess", "desensitize", "check_release", "publish"]
    assert not [t for t in dag.task_ids if "split" in t or t.startswith("bank_answer")]
    bank, credit = (
        build_dags(decoys, [party])[f"{NAME}_{purpose}"] for party in ("bank", "credit")
    )
    wanted = [t.op_kwargs["wanted"] for t in bank.tasks if ".wait_for_" in t.task_id]
    assert wanted == [["psi_query/bank"]]
    first = bank.get_task("bank_release.preprocess").get_flat_relative_ids(upstream=True)
    assert "bank_psi.psi_answer" in first
    wanted = [t.op_kwargs["wanted"] for t in credit.tasks if ".wait_for_" in t.task_id]
    assert wanted == [["digests/bank", "psi_answer/bank"], ["values/bank"]]
