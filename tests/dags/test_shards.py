"""A party whose table is several files: its mapped tasks, and how they are followed."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.cli.demo import _by_task, _state
from opboost_ops.orchestration.dags import build_dags
from opboost_ops.run.runner import together


def test_where_shards_are_declared_what_treats_a_file_is_mapped(federations: Path) -> None:
    path = federations / "credit.yaml"
    data = yaml.safe_load(path.read_text())
    data["parties"]["bank"]["shards"] = True
    data["scoring"] = {"mode": "routed"}
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    dags = build_dags(federations)
    train, score = dags["credit_scoring_train"], dags["credit_scoring_score"]
    assert {task.task_id for task in train.tasks if task.is_mapped} == {"bank_release.desensitize"}
    assert {task.task_id for task in score.tasks if task.is_mapped} == {"bank_release.preprocess"}
    chain = {
        "list_shards": ["digest_ids", "list_shards"],
        "desensitize": ["preprocess", "desensitize"],
        "merge_shards": ["merge_shards", "rank"],
    }
    for before, after in pairwise(f"bank_release.{name}" for name in chain):
        assert after in train.get_task(before).downstream_task_ids
    for name, stages in chain.items():
        made = train.get_task(f"bank_release.{name}")
        given = made.partial_kwargs["op_kwargs"] if made.is_mapped else made.op_kwargs
        assert given["stages"] == stages
    after = score.get_task("bank_psi.psi_answer").get_flat_relative_ids(upstream=True)
    assert "bank_release.merge_shards" in after
    assert "shop_release.list_shards" not in train.task_ids
    for dag in (train, score):
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        dag.task_group.topological_sort()


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([None], "None"),
        (["queued", "queued"], "queued"),
        (["queued", "running"], "running"),
        (["success", "scheduled"], "running"),
        (["success", "success"], "success"),
        (["success", "failed", "running"], "failed"),
    ],
)
def test_a_mapped_task_has_ended_when_all_its_instances_have(
    states: list[str | None], told: str
) -> None:
    assert _state([{"state": state} for state in states]) == told


def test_instances_are_followed_as_one_task() -> None:
    def instance(name: str, index: int, start: str | None) -> dict[str, Any]:
        return {"task_id": name, "map_index": index, "start_date": start}

    tasks = [
        instance("b.rank", -1, None),
        instance("b.preprocess", 1, "2"),
        instance("b.preprocess", 0, "1"),
    ]
    first, second = _by_task(tasks)
    assert [task["map_index"] for task in first] == [0, 1]
    assert [task["task_id"] for task in second] == ["b.rank"]
    # Each says the same, whatever its file has: what there is to be told is told once.
    summary = {"features": 2, "published": []}
    assert together([summary, summary]) == summary
