"""The training DAG: groups, tasks, queues, form."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError

from opboost_ops.config.federation import Purpose, ScoringMode
from opboost_ops.config.loading import parse_federation
from opboost_ops.exchange.kinds import kinds_of
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.lineage import PARAMETER
from opboost_ops.pipeline.party.form_values import FORM
from opboost_ops.pipeline.phases import phases
from tests.dags.conftest import declare

RELEASE = ["check_table", "desensitize", "check_release"]


@pytest.fixture
def dag(federations: Path) -> DAG:
    return build_dags(federations)["credit_scoring_train"]


def test_a_feature_holder_checks_its_release_first_and_waits_for_nobody_but_the_plan(
    dag: DAG,
) -> None:
    upstream = dag.get_task("bank_release.check_release").get_flat_relative_ids(upstream=True)
    assert upstream == {"credit_open.open_run", *(f"bank_release.{s}" for s in RELEASE[:-1])}
    assert dag.get_task("shop_release.check_table").upstream_task_ids == {"credit_open.open_run"}
    answer = dag.get_task("bank_psi.psi_answer").get_flat_relative_ids(upstream=True)
    assert "credit_open.psi_query" in answer
    # What it seals has passed its check.
    assert "bank_release.check_release" in answer
    assert not any(name.startswith("shop_psi") for name in answer)
    register = dag.get_task("credit_publish.register")
    assert register.upstream_task_ids == {"credit_publish.check_model"}


@pytest.mark.parametrize("mode", get_args(ScoringMode))
def test_every_artifact_of_a_run_is_awaited(federations: Path, mode: str) -> None:
    data = yaml.safe_load((federations / "credit.yaml").read_text())
    data["scoring"] = {"mode": mode}
    federation = parse_federation(data, "")
    for purpose in get_args(Purpose):
        awaited = [kind for phase in phases(federation, purpose) for kind in phase.awaits]
        assert sorted(["plan", *awaited]) == sorted(k.name for k in kinds_of(federation, purpose))


def test_the_dag_is_documented_tagged_and_runs_once_at_a_time(dag: DAG) -> None:
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert {"opboost", "train", "credit_scoring", "credit", "shop", "bank"} <= dag.tags
    assert dag.doc_md is not None
    assert "`income`" in dag.doc_md
    assert "never leaves" in dag.doc_md
    assert all(task.retries == 3 for task in dag.tasks)


def test_the_schedule_is_the_declared_cron(federations: Path, dag: DAG) -> None:
    assert dag.schedule is None
    monday = declare(federations, schedule={"cron": "0 3 * * 1"})["credit_scoring_train"]
    assert monday.schedule.expression == "0 3 * * 1"


def test_the_form_has_the_runners_fields_and_may_stay_empty(dag: DAG) -> None:
    assert set(dag.params) == {*FORM["train"], PARAMETER}
    assert {name for name, value in dag.params.validate().items() if value} == {PARAMETER}


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("trees", [1, 10_000], [0, 2.5, 10_001]),
        ("learning_rate", [0.01, 1], [0, 1.5]),
        ("depth", [1, 16], [0, 17, 2.5, "deep"]),
        # What is typed comes as text.
        ("trees", ["1", " 100 ", "10000", ""], ["0", "-3", "2.5", "10001", "1,000", "1e2", "lots"]),
        (
            "learning_rate",
            ["0.1", ".5", "1e-2", "1", "1.0", ""],
            ["lots", "0,5", "0.0", "1.5", "3"],
        ),
    ],
)
def test_the_form_validates_ranges(dag: DAG, field: str, good: list[Any], bad: list[Any]) -> None:
    param = dag.params.get_param(field)
    for value in good:
        assert param.resolve(value) == value
    for value in bad:
        with pytest.raises(ParamValidationError):
            param.resolve(value)


def test_each_field_tells_what_is_declared_and_its_range(dag: DAG) -> None:
    found = {name: dag.params.get_param(name) for name in FORM["train"]}
    assert all(str(param.description).startswith("Declared: ") for param in found.values())
    assert "from 1 to 10000" in str(found["trees"].description)
    assert "from above 0 to 1" in str(found["learning_rate"].description)
