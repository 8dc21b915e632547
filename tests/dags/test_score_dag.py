"""The scoring DAG: groups and tasks in each mode, what starts it, and what it emits."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAll, AssetAny, AssetOrTimeSchedule
from airflow.sdk.exceptions import ParamValidationError

from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.lineage import PARAMETER
from opboost_ops.pipeline.party.form_values import FORM
from tests.dags.conftest import declare

RELEASE = ["check_table", "desensitize", "check_release"]
CHAMPION = "credit_scoring_champion"


def dag_of(federations: Path, **changes: Any) -> DAG:
    """The scoring DAG of a file with other entries."""
    return declare(federations, **changes)["credit_scoring_score"]


def upstream(dag: DAG, task: str) -> set[str]:
    return dag.get_task(task).get_flat_relative_ids(upstream=True)


@pytest.mark.parametrize(
    ("mode", "release"), [("desensitised", RELEASE), ("routed", ["check_table", "desensitize"])]
)
def test_feature_holders_do_not_wait_for_each_other(
    federations: Path, mode: str, release: list[str]
) -> None:
    dag = dag_of(federations, scoring={"mode": mode})
    assert dag.get_task("shop_release.check_table").upstream_task_ids == {"credit_open.open_run"}
    before = upstream(dag, f"bank_release.{release[-1]}")
    assert before == {"credit_open.open_run", *(f"bank_release.{s}" for s in release[:-1])}
    before = upstream(dag, "bank_psi.psi_answer")
    assert "credit_open.psi_query" in before
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
