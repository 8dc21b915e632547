"""A broken federation file becomes a DAG that says what is wrong; the others live."""

from pathlib import Path

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.orchestration.dags.factory import build_dags
from tests.dags.conftest import NAMES, declare


def problem_of(dag: DAG) -> str:
    assert "invalid" in dag.tags
    (task,) = dag.tasks
    with pytest.raises(AirflowFailException) as caught:
        task.python_callable(**task.op_kwargs)  # type: ignore[attr-defined]
    return str(caught.value)


def test_all_faults_of_a_broken_file_beside_a_good_one(federations: Path) -> None:
    data = yaml.safe_load((federations / "credit.yaml").read_text())
    data["domain"] = {"lower": 10, "upper": 1}
    del data["parties"]["bank"]["features"]["income"]["bounds"]
    data["training"]["tress"] = 5
    (federations / "Broken-One.yaml").write_text(yaml.safe_dump(data))
    dags = build_dags(federations)
    assert set(dags) == {"broken_one_train", *NAMES}
    assert "invalid" not in dags["credit_scoring_train"].tags
    problem = problem_of(dags["broken_one_train"])
    assert "Broken-One.yaml" in problem
    assert "training.tress" in problem
    assert "domain" in problem


@pytest.mark.parametrize(
    "content", ["", "a: [1, 2", "\x00\x01", "- 1\n- 2", "version: 1", "null", "!!python/none 1"]
)
def test_any_rubbish_becomes_an_invalid_dag(federations: Path, content: str) -> None:
    (federations / "rubbish.yaml").write_text(content)
    dags = build_dags(federations)
    assert "invalid" not in dags["credit_scoring_train"].tags
    assert "rubbish.yaml" in problem_of(dags["rubbish_train"])


def test_a_broken_file_never_displaces_a_good_dag(federations: Path) -> None:
    (federations / "credit_scoring").mkdir()
    (federations / "credit_scoring" / "federation.yaml").write_text("version: 2")
    dags = build_dags(federations)
    assert len(dags) == 4
    assert sum("invalid" in dag.tags for dag in dags.values()) == 1


def test_two_files_of_one_name(federations: Path) -> None:
    (federations / "other.yaml").write_text((federations / "credit.yaml").read_text())
    dags = build_dags(federations)
    assert "invalid" not in dags["credit_scoring_train"].tags
    assert "another file also has the name" in problem_of(dags["other_train"])


def test_bad_cron_expressions_are_told_at_once(federations: Path) -> None:
    dags = declare(federations, schedule={"cron": "every monday"}, scoring={"cron": "at noon"})
    problem = problem_of(dags["credit_scoring_train"])
    assert "schedule.cron" in problem
    assert "scoring.cron" in problem


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert "none" in problem_of(build_dags(tmp_path / "none")["opboost_invalid"])


def test_files_in_folders_of_their_own(federations: Path) -> None:
    (federations / "bureau").mkdir()
    (federations / "credit.yaml").rename(federations / "bureau" / "federation.yaml")
    assert set(build_dags(federations)) == NAMES


def test_a_task_builds_its_own_dag_alone(federations: Path) -> None:
    data = yaml.safe_load((federations / "credit.yaml").read_text())
    (federations / "other.yaml").write_text(yaml.safe_dump({**data, "name": "other"}))
    (federations / "broken.yaml").write_text("version: 2")
    everything = build_dags(federations)
    for what in ("train", "score", "admin"):
        assert set(build_dags(federations, only=f"other_{what}")) == {f"other_{what}"}
    for dag in everything:
        assert dag in build_dags(federations, only=dag)


@pytest.mark.parametrize("second", ["", "\nversion: 2"])
def test_another_file_of_a_name_displaces_no_dag_of_a_task(federations: Path, second: str) -> None:
    path = federations / "credit.yaml"
    (federations / "later.yaml").write_text(path.read_text() + second)
    for what in ("train", "score", "admin"):
        dag = build_dags(federations, only=f"credit_scoring_{what}")[f"credit_scoring_{what}"]
        assert "invalid" not in dag.tags
        opening = [task for name, task in dag.task_dict.items() if name.endswith("open_run")]
        assert [Path(task.op_kwargs["federation_file"]).name for task in opening] == [
            "credit.yaml"
        ] * (what != "admin")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("{cron: '0 3 * * 1'}", "0 3 * * 1"),
        ("{on_tables: 0 * * * *}", "0 * * * *"),
        ("{cron: every monday}", "0 0 * * *"),
        ("{}", "0 0 * * *"),
    ],
)
@pytest.mark.parametrize("parties", [None, ["bank"]])
def test_a_broken_file_fails_under_its_name_at_its_times(
    federations: Path, schedule: str, expected: str, parties: list[str] | None
) -> None:
    """A nightly federation fails in red; it does not just stop."""
    declare(federations, schedule=yaml.safe_load(schedule), training={"tress": 5})
    (federations / "credit.yaml").rename(federations / "any.yaml")
    ((name, dag),) = build_dags(federations, parties).items()
    assert name == "credit_scoring_train"
    assert "any.yaml" in problem_of(dag)
    assert dag.tasks[0].on_failure_callback
    assert dag.timetable.expression == expected  # type: ignore[attr-defined]


def test_what_is_no_yaml_fails_daily_under_the_name_of_the_file(federations: Path) -> None:
    (federations / "credit.yaml").rename(federations / "credit_scoring.yaml")
    path = federations / "credit_scoring.yaml"
    path.write_text(f"{path.read_text()}\ndomain: [1, 2")
    ((name, dag),) = build_dags(federations).items()
    assert name == "credit_scoring_train"
    assert dag.timetable.expression == "0 0 * * *"  # type: ignore[attr-defined]


def test_one_file_alone(federations: Path) -> None:
    """As a DAG file of one federation names it; another one of the folder is not read."""
    (federations / "broken.yaml").write_text("version: 2")
    assert len(build_dags(federations / "credit.yaml", ["bank", "of_another_file"])) == 4
    assert "invalid" in build_dags(federations / "gone.yaml")["opboost_invalid"].tags
