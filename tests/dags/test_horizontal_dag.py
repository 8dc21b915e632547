"""The DAG of horizontal learning: one task a party that runs beside the others, and its slots."""

import pytest
from airflow.sdk import DAG, BaseXCom, TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.extras.datasets.generated import write_lenders
from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.lineage import PARAMETER
from opboost_ops.orchestration.deployment import capacity
from tests.dags.conftest import DAG_ID, RUN, in_task

LEARN = ["encode_rows", "boost", "check_model", "register"]


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    folder = tmp_path_factory.mktemp("lenders") / "all"
    write_lenders(folder, parties=17, rows=170)
    return build_dags(folder)


def test_all_parties_train_side_by_side_and_nobody_waits_in_between(dags: dict[str, DAG]) -> None:
    dag = dags["lenders_train"]
    names = [f"lender_{i:02d}" for i in range(1, 18)]
    groups = {"lender_01_open": ["open_run", "check_table"]}
    groups |= {f"{name}_own": ["check_table"] for name in names[1:]}
    groups |= {f"{name}_learn": LEARN for name in names}
    groups["lender_01_announce"] = ["announce_champion"]
    assert set(dag.task_ids) == {f"{g}.{stage}" for g, stages in groups.items() for stage in stages}
    boosts = [dag.get_task(f"{name}_learn.boost") for name in names]
    for task in boosts:
        assert task.upstream_task_ids == {f"{task.task_id.partition('.')[0]}.encode_rows"}
    assert dag.max_active_tasks >= len(names)
    announce = dag.get_task("lender_01_announce.announce_champion")
    assert announce.trigger_rule == TriggerRule.ALL_SUCCESS
    # All of its training decides which sums leave: that is agreed, and no form changes it.
    assert set(dag.params) == {PARAMETER}
    assert "17 parties" in dag.doc_md and "same time" in dag.doc_md
    assert set(dags) == {"lenders_train", "lenders_score", "lenders_admin"}


def test_too_few_slots_end_a_run_before_anybody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = capacity.slot_problems
    assert problems(3, 3, 3) == problems(3, -1, 0) == problems(0, 1, 1) == []
    (empty,) = problems(0, 0, 0)
    assert "default_pool has 0 slots, and 1 are needed" in empty
    (short,) = problems(3, 1, 2)
    assert "core.parallelism is 2, and 3" in short
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(BaseXCom, "delete", lambda *what: told.append(what))
    in_task(monkeypatch, blocked=True)
    with pytest.raises(AirflowFailException, match="`opboost airflow check`"):
        tasks.open_run("unused", "train")
    assert told == [("blocked_by", "credit_open.check_table", DAG_ID, RUN)]
