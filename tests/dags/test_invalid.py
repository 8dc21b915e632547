"""A broken federation file becomes a DAG that says what is wrong; the others live."""

from pathlib import Path

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.orchestration.dags import build_dags


def problem_of(dag: DAG) -> str:
    assert "invalid" in dag.tags
    (task,) = dag.tasks
    with pytest.raises(AirflowFailException) as caught:
        task.python_callable(*task.op_args, **task.op_kwargs)  # type: ignore[attr-defined]
    return str(caught.value)


def test_all_faults_of_a_broken_file_beside_a_good_one(federations: Path) -> None:
    data = yaml.safe_load((federations / "credit.yaml").read_text())
    data["domain"] = {"lower": 10, "upper": 1}
    del data["parties"]["bank"]["features"]["income"]["bounds"]
    data["training"]["tress"] = 5
    (federations / "Broken-One.yaml").write_text(yaml.safe_dump(data))
    dags = build_dags(federations)
    assert set(dags) == {"credit_scoring_train", "credit_scoring_score", "broken_one_train"} | {
        "credit_scoring_acts"
    }
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
    assert "another file has the name" in problem_of(dags["other_train"])


def test_bad_cron_expressions_are_told_at_once(federations: Path) -> None:
    data = yaml.safe_load((federations / "credit.yaml").read_text())
    data["schedule"] = {"cron": "every monday"}
    data["scoring"] = {"cron": "at noon"}
    (federations / "credit.yaml").write_text(yaml.safe_dump(data))
    problem = problem_of(build_dags(federations)["credit_scoring_train"])
    assert "schedule.cron" in problem
    assert "scoring.cron" in problem


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert "OPBOOST_FEDERATIONS" in problem_of(build_dags(tmp_path / "none")["opboost_invalid"])


def test_files_in_folders_of_their_own(federations: Path) -> None:
    (federations / "bureau").mkdir()
    (federations / "credit.yaml").rename(federations / "bureau" / "federation.yaml")
    names = {f"credit_scoring_{what}" for what in ("train", "score", "acts")}
    assert set(build_dags(federations)) == names


def test_a_task_builds_its_own_dag_alone(federations: Path) -> None:
    data = yaml.safe_load((federations / "credit.yaml").read_text())
    (federations / "other.yaml").write_text(yaml.safe_dump({**data, "name": "other"}))
    (federations / "broken.yaml").write_text("version: 2")
    everything = build_dags(federations)
    for what in ("train", "score", "acts"):
        assert set(build_dags(federations, only=f"other_{what}")) == {f"other_{what}"}
    for dag in everything:
        assert dag in build_dags(federations, only=dag)


@pytest.mark.parametrize("second", ["", "\nversion: 2"])
def test_another_file_of_a_name_displaces_no_dag_of_a_task(federations: Path, second: str) -> None:
    path = federations / "credit.yaml"
    (federations / "later.yaml").write_text(path.read_text() + second)
    for what in ("train", "score", "acts"):
        dag = build_dags(federations, only=f"credit_scoring_{what}")[f"credit_scoring_{what}"]
        assert "invalid" not in dag.tags
        opening = [task for name, task in dag.task_dict.items() if name.endswith("open_run")]
        assert [Path(task.op_args[0]).name for task in opening] == ["credit.yaml"] * (
            what != "acts"
        )


@pytest.mark.parametrize(
    "broken", ["training: {tress: 5}", "domain: [1, 2", "training: {trees: 5}\x00"]
)
@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("{cron: '0 3 * * 1'}", "0 3 * * 1"), ("{on_tables: 0 * * * *}", "0 * * * *"), ("{}", None)],
)
def test_a_broken_file_keeps_its_name_and_its_times(
    federations: Path, broken: str, schedule: str, expected: str | None
) -> None:
    """A nightly federation fails in red at its time; it does not just stop."""
    path = federations / "credit.yaml"
    path.write_text(f"{path.read_text()}\nschedule: {schedule}\n{broken}\n")
    dags = build_dags(federations)
    watched = ["tables"] if "on_tables" in schedule else []
    assert set(dags) == {f"credit_scoring_{what}" for what in ("train", "score", "acts", *watched)}
    for dag in dags.values():
        assert "credit.yaml" in problem_of(dag)
        (task,) = dag.tasks
        assert task.on_failure_callback
    train = dags["credit_scoring_train"]
    assert getattr(train.timetable, "expression", None) == expected
    assert "opboost stop" in problem_of(dags["credit_scoring_acts"])


def test_a_broken_file_keeps_the_times_of_scoring(federations: Path) -> None:
    """Where only new rows are scored at night, that does not just stop, either."""
    path = federations / "credit.yaml"
    data = yaml.safe_load(path.read_text()) | {"schedule": {}}
    data["scoring"] = {"mode": "desensitised", "cron": "30 2 * * *"}
    path.write_text(f"{yaml.safe_dump(data)}\ntraining: {{tress: 5}}\n")
    dags = build_dags(federations)
    assert "invalid" in dags["credit_scoring_score"].tags
    assert getattr(dags["credit_scoring_score"].timetable, "expression", None) == "30 2 * * *"
    assert getattr(dags["credit_scoring_train"].timetable, "expression", None) is None


@pytest.mark.parametrize(
    "parties", [None, ["credit"], ["bank"], ["bank", "shop"], ["credit", "bank"]]
)
@pytest.mark.parametrize("flow", [False, True])
def test_a_broken_file_keeps_every_dag_that_it_has_whole(
    federations: Path, parties: list[str] | None, flow: bool
) -> None:
    """Also `_tables`, and `_join` where the label holder is in another Airflow."""
    path = federations / "credit.yaml"
    data = yaml.safe_load(path.read_text()) | {"schedule": {"on_tables": "0 * * * *"}}
    lines = yaml.safe_dump(data, sort_keys=False)
    if flow:
        of = "".join(
            f"  {party}: {yaml.safe_dump(said, default_flow_style=True, width=10**6)}"
            for party, said in data["parties"].items()
        )
        rest = {name: said for name, said in data.items() if name != "parties"}
        lines = f"{yaml.safe_dump(rest, sort_keys=False)}parties:\n{of}"
    path.write_text(lines)
    whole = set(build_dags(federations, parties))
    assert ("credit_scoring_join" in whole) != ("credit_scoring_tables" in whole)
    path.write_text(f"{lines}\ntraining: {{tress: 5}}\n")
    broken = build_dags(federations, parties)
    assert set(broken) == whole
    for name, dag in broken.items():
        assert "training" in problem_of(dag)
        # Each is alarmed once: training at its times.
        timed = getattr(dag.timetable, "expression", None) is not None
        assert timed == (name == "credit_scoring_train")
