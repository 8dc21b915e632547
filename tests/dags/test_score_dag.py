"""The scoring DAG: groups and tasks in each mode, what starts it, and what it emits."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG, Asset, AssetAll, AssetAny, AssetOrTimeSchedule
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.lineage import PARAMETER
from opboost_ops.run.form_values import FORM

RELEASE = ["check_table", "desensitize", "check_release"]
SCORE = ["score", "check_scores", "write_scores"]
GROUPS = {
    "desensitised": {
        "credit_open": ["open_run", "check_table", "psi_query"],
        "shop_release": RELEASE,
        "bank_release": RELEASE,
        "shop_psi": ["psi_answer"],
        "bank_psi": ["psi_answer"],
        "credit_score": SCORE,
    },
    "routed": {
        "credit_open": ["open_run", "check_table", "psi_query"],
        "shop_release": ["check_table", "preprocess"],
        "bank_release": ["check_table", "preprocess"],
        "shop_psi": ["psi_answer"],
        "bank_psi": ["psi_answer"],
        "credit_score": SCORE,
    },
    "local": {"credit_open": ["open_run", "check_table"], "credit_score": SCORE},
}
CHAMPION = "credit_scoring_champion"


def dag_of(federations: Path, **changes: Any) -> DAG:
    """The scoring DAG of a file with other entries; ``parties`` are changed one by one."""
    path = federations / "credit.yaml"
    data = yaml.safe_load(path.read_text())
    for party, entries in changes.pop("parties", {}).items():
        data["parties"][party] |= entries
    path.write_text(yaml.safe_dump({**data, **changes}, sort_keys=False))
    return build_dags(federations)["credit_scoring_score"]


def upstream(dag: DAG, task: str) -> set[str]:
    return dag.get_task(task).get_flat_relative_ids(upstream=True)


@pytest.mark.parametrize("mode", list(GROUPS))
def test_groups_and_tasks_of_each_mode(federations: Path, mode: str) -> None:
    dag = dag_of(federations, scoring={"mode": mode})
    groups = GROUPS[mode]
    assert set(dag.task_ids) == {f"{group}.{name}" for group in groups for name in groups[group]}
    order = [group.node_id for group in dag.task_group.topological_sort()]
    assert sorted(order) == sorted(groups)
    assert (order[0], order[-1]) == ("credit_open", "credit_score")
    for group, names in groups.items():
        assert dag.task_group.children[group].label.startswith(f"{group.rpartition('_')[0]}: ")
        for before, after in pairwise(names):
            assert f"{group}.{after}" in dag.get_task(f"{group}.{before}").downstream_task_ids
    assert upstream(dag, "credit_score.write_scores") == set(dag.task_ids) - {
        "credit_score.write_scores"
    }
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(again.task_dict) == set(dag.task_ids)
    assert f"mode `{mode}`" in str(dag.doc_md)


@pytest.mark.parametrize("mode", ["desensitised", "routed"])
def test_feature_holders_do_not_wait_for_each_other(federations: Path, mode: str) -> None:
    dag = dag_of(federations, scoring={"mode": mode})
    assert dag.get_task("shop_release.check_table").upstream_task_ids == {"credit_open.open_run"}
    release = GROUPS[mode]["bank_release"]
    before = upstream(dag, f"bank_release.{release[-1]}")
    assert before == {"credit_open.open_run", *(f"bank_release.{s}" for s in release[:-1])}
    before = upstream(dag, f"bank_psi.{GROUPS[mode]['bank_psi'][-1]}")
    assert f"credit_open.{GROUPS[mode]['credit_open'][-1]}" in before
    assert not any(task.startswith("shop_psi") for task in before)


def test_tasks_run_on_their_partys_queue(federations: Path) -> None:
    own = {p: {"queue": f"{p}_queue"} for p in ("credit", "bank")}
    dag = dag_of(federations, parties=own, schedule={"timeout_hours": 3})
    for task in dag.tasks:
        party = task.task_id.split(".")[0].rpartition("_")[0]
        assert (task.owner, bool(task.doc_md), task.retries) == (party, True, 3)
        # It ends before its run does.
        assert timedelta(hours=2) < task.execution_timeout < timedelta(hours=3)
        assert task.queue == ("default" if party == "shop" else f"{party}_queue")
    assert dag.dagrun_timeout == timedelta(hours=3)
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert {"opboost", "score", "credit_scoring", "credit", "shop", "bank"} <= dag.tags
    assert "train" not in dag.tags


def expression(condition: Any) -> Any:
    if isinstance(condition, Asset):
        return condition.name
    kind = {AssetAny: "any", AssetAll: "all"}[type(condition)]
    return (kind, *(expression(part) for part in condition.objects))


def new_rows(*parties: str) -> tuple[str, ...]:
    return ("all", *(f"credit_scoring_{party}_new_rows" for party in parties))


@pytest.mark.parametrize("cron", [None, "0 4 * * *"])
@pytest.mark.parametrize(
    ("mode", "on_tables", "expected"),
    [
        ("desensitised", None, CHAMPION),
        ("desensitised", "*/5 * * * *", ("any", CHAMPION, new_rows("credit", "shop", "bank"))),
        ("routed", "*/5 * * * *", ("any", CHAMPION, new_rows("credit", "shop", "bank"))),
        # Feature holders have no part in it, so nobody waits for their tables.
        ("local", "*/5 * * * *", ("any", CHAMPION, new_rows("credit"))),
    ],
)
def test_a_new_champion_starts_it_or_new_rows_of_all_or_its_cron(
    federations: Path, cron: str | None, mode: str, on_tables: str | None, expected: Any
) -> None:
    dag = dag_of(
        federations,
        scoring={"mode": mode, **({"cron": cron} if cron else {})},
        schedule={"on_tables": on_tables} if on_tables else {},
    )
    assert expression(dag.timetable.asset_condition) == expected
    assert isinstance(dag.schedule, AssetOrTimeSchedule) is (cron is not None)
    if cron:
        assert dag.timetable.timetable.expression == cron


def test_assets_are_emitted_by_the_last_tasks_alone(federations: Path) -> None:
    dags = build_dags(federations)
    emitted = {
        (dag_id, task.task_id): [asset.name for asset in task.outlets]
        for dag_id, dag in dags.items()
        for task in dag.tasks
        if task.outlets
    }
    assert emitted == {
        ("credit_scoring_train", "credit_publish.announce_champion"): [CHAMPION],
        ("credit_scoring_score", "credit_score.write_scores"): ["credit_scoring_scores"],
    }
    # What training emits is what scoring waits for.
    (promoted,) = dags["credit_scoring_train"].get_task("credit_publish.announce_champion").outlets
    assert promoted == dags["credit_scoring_score"].timetable.asset_condition


def test_the_form_asks_for_a_version_that_may_stay_empty(federations: Path) -> None:
    dag = dag_of(federations)
    assert set(dag.params) == {*FORM["score"], PARAMETER}
    assert dag.params.validate()["version"] is None
    version = dag.params.get_param("version")
    for good in ("0123456789abcdef", ""):
        assert version.resolve(good) == good
    for bad in ("0123456789ABCDEF", "latest", "../0123456789abcdef", 7):
        with pytest.raises(ParamValidationError):
            version.resolve(bad)
