"""DAGs that are kept between parses: the same as built ones, and only while nothing has changed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import uuid4

import pytest
import structlog
import yaml
from airflow.api_fastapi.execution_api.datamodels.taskinstance import TaskInstance
from airflow.callbacks.callback_requests import TaskCallbackRequest
from airflow.dag_processing.processor import DagFileParseRequest, _parse_file
from airflow.sdk import DAG, BaseNotifier, TaskInstanceState
from airflow.sdk.definitions._internal.expandinput import EXPAND_INPUT_EMPTY
from airflow.sdk.definitions._internal.types import NOTSET

from opboost_ops.datasets.lenders import write_lenders
from opboost_ops.orchestration import dags as module
from opboost_ops.orchestration import federations as parsed
from opboost_ops.orchestration import kept_dags
from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.kept_dags import PROCESSOR, KeptDags
from tests.dags.kept import entries, parse, serialized

ROOT = Path(__file__).parents[2]
NAMES = {f"credit_scoring_{what}" for what in ("train", "score", "acts")}


def changed(files: Path, **more: Any) -> None:
    path = files / "credit.yaml"
    data = yaml.safe_load(path.read_text())
    data["parties"]["bank"].update(more.pop("bank", {}))
    path.write_text(yaml.safe_dump({**data, **more}, sort_keys=False))


@pytest.mark.parametrize(
    ("parties", "bank", "schedule"),
    [
        (None, {}, {"cron": "0 3 * * 1"}),
        (None, {"shards": True}, {"on_tables": "0 * * * *"}),
        (("credit",), {"pool": "one", "queue": "q"}, {"on_tables": "0 * * * *"}),
        (("shop", "bank"), {"shards": True}, {}),
        (("elsewhere",), {}, {}),
    ],
)
def test_they_are_as_built_ones(
    federations: Path,
    home: Path,
    built: list[str],
    parties: tuple[str, ...] | None,
    bank: dict[str, Any],
    schedule: dict[str, Any],
) -> None:
    changed(federations, bank=bank, schedule=schedule)
    first = parse(federations, home, parties)
    assert built == ["credit.yaml"]
    again = parse(federations, home, parties)
    assert built == ["credit.yaml"]
    assert serialized(again) == serialized(first) == serialized(build_dags(federations, parties))
    for name, dag in again.items():
        assert dag is not first[name]
        assert all(task.dag is dag for task in dag.tasks)


def test_those_of_horizontal_learning_are_too(home: Path, tmp_path: Path, built: list[str]) -> None:
    write_lenders(tmp_path / "lenders", parties=3, rows=60)
    first = parse(tmp_path, home)
    assert serialized(parse(tmp_path, home)) == serialized(first)
    assert len(built) == 1


@pytest.mark.parametrize("parties", [("lender_01",), ("lender_02", "lender_03")])
def test_those_of_horizontal_halves_are_too(
    home: Path, tmp_path: Path, built: list[str], parties: tuple[str, ...]
) -> None:
    write_lenders(tmp_path / "lenders", parties=3, rows=60)
    first = parse(tmp_path, home, parties)
    assert serialized(parse(tmp_path, home, parties)) == serialized(first)
    assert len(built) == 1


def test_airflows_own_marks_stay_what_they_are(federations: Path, home: Path) -> None:
    changed(federations, bank={"shards": True})
    parse(federations, home)
    kept = parse(federations, home)
    mapped = kept["credit_scoring_train"].get_task("bank_release.desensitize")
    assert mapped.expand_input is EXPAND_INPUT_EMPTY
    for name, dag in build_dags(federations).items():
        again = kept[name].params
        for param in dag.params:
            one, other = dag.params.get_param(param), again.get_param(param)
            assert one.has_value == other.has_value
    parties = ("shop", "bank")
    parse(federations, home, parties)
    start = parse(federations, home, parties)["credit_scoring_join"].get_task("start_run")
    assert start.run_after is NOTSET
    assert start.on_failure_callback


def a_new_processor(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_dags, "_processor", lambda: (1, "another"))


def the_code(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_dags, "_CODE", [("changed.py", 1, 1, 1)])


def what_is_installed(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "packages").mkdir()
    monkeypatch.setattr(kept_dags, "_PACKAGES", home / "packages")


def a_table_beside_it(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "channel").write_text("{}")


def its_comment(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files / "credit.yaml"
    path.write_text(path.read_text() + "# Looked at.\n")


@pytest.mark.parametrize(
    "change",
    [a_new_processor, the_code, what_is_installed, a_table_beside_it, its_comment],
)
def test_what_they_are_made_of_has_changed(
    federations: Path,
    home: Path,
    built: list[str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, Path, pytest.MonkeyPatch], None],
) -> None:
    parse(federations, home)
    change(federations, home, monkeypatch)
    parse(federations, home)
    assert len(built) == 2
    parse(federations, home)
    assert len(built) == 2


def test_a_channel_beside_a_file_in_a_folder_of_its_own_has_any_name(
    federations: Path, home: Path, built: list[str]
) -> None:
    own = federations / "own"
    own.mkdir()
    (federations / "credit.yaml").rename(own / "federation.yaml")
    for turn in range(2):
        (own / "near.yaml").write_text(f"{turn}")
        for _ in range(2):
            parse(federations, home)
        assert len(built) == turn + 1


def test_pods_of_tasks_have_changed(
    federations: Path, home: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = home / "pods"
    pods.mkdir()
    monkeypatch.setenv("OPBOOST_PODS", str(pods))
    # Without a manifest for each queue no DAG is made of the file.
    assert "invalid" in parse(federations, home)["credit_scoring_train"].tags
    parse(federations, home)
    assert len(built) == 2 and not entries(home)
    monkeypatch.setattr(module, "_build", lambda *others: built.append("") or [])
    for _ in range(2):
        parse(federations, home)
    assert len(built) == 3
    (pods / "bank.yaml").write_text("spec: {}")
    parse(federations, home)
    assert len(built) == 4


def test_only_the_file_that_changed_is_built(
    federations: Path, home: Path, built: list[str]
) -> None:
    text = (federations / "credit.yaml").read_text()
    (federations / "other.yaml").write_text(text.replace("name: credit_scoring", "name: other"))
    parse(federations, home)
    changed(federations, scoring={"cron": "0 5 * * *"})
    found = parse(federations, home)
    assert built == ["credit.yaml", "other.yaml", "credit.yaml"]
    assert "0 5 * * *" in serialized({"score": found["credit_scoring_score"]})
    (federations / "other.yaml").unlink()
    assert len(entries(home)) == 2
    assert set(parse(federations, home)) == NAMES
    assert len(entries(home)) == 1


@pytest.mark.parametrize(
    ("command", "only", "keeps"),
    [
        (["dag-processor"], None, True),
        (["dag-processor"], "credit_scoring_acts", False),
        (["scheduler"], None, False),
        (["dags", "list", "dag-processor"], None, False),
        (["dags", "list"], None, False),
    ],
)
def test_the_dag_processor_alone_keeps_them_and_no_task_reads_them(
    federations: Path,
    home: Path,
    built: list[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    only: str | None,
    keeps: bool,
) -> None:
    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    monkeypatch.setattr(sys, "argv", ["airflow", *command])
    monkeypatch.setattr(parsed, "KeptDags", lambda parties: KeptDags(parties, home))
    if keeps:
        parse(federations, home)
        built.clear()
    monkeypatch.setattr(parsed, "get_parsing_context", lambda: SimpleNamespace(dag_id=only))
    found = parsed.federation_dags()
    assert set(found) == ({only} if only else NAMES)
    assert built == ([] if keeps else ["credit.yaml"])
    assert bool(entries(home)) == keeps


class Telling(BaseNotifier):
    told: ClassVar[list[str]] = []

    def notify(self, context: Any) -> None:
        self.told.append(str(context["task_id"]))


NOTIFIERS: dict[str, Any] = {"failure": [Telling()]}


def test_callbacks_of_what_is_kept_are_called(
    federations: Path, home: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a task whose process died Airflow calls them where it parses."""
    changed(federations, bank={"shards": True})
    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    monkeypatch.setenv("OPBOOST_NOTIFIERS", f"{__name__}:NOTIFIERS")
    monkeypatch.setattr(sys, "argv", ["airflow", PROCESSOR])
    monkeypatch.setattr(parsed, "KeptDags", lambda parties: KeptDags(parties, home))
    Telling.told.clear()
    stages = {"credit_open.open_run": -1, "bank_release.desensitize": 0}
    died = [
        TaskCallbackRequest(
            filepath="federations.py",
            bundle_name="of a test",
            bundle_version=None,
            msg="It died.",
            task_callback_type=TaskInstanceState.FAILED,
            ti=TaskInstance(
                id=uuid4(),
                task_id=stage,
                dag_id="credit_scoring_train",
                run_id="manual__1",
                try_number=1,
                dag_version_id=uuid4(),
                map_index=index,
            ),
        )
        for stage, index in stages.items()
    ]
    for requests in ([], died):
        request = DagFileParseRequest(
            file=str(ROOT / "dags" / "federations.py"),
            bundle_path=ROOT / "dags",
            bundle_name="of a test",
            callback_requests=requests,
        )
        _parse_file(request, structlog.get_logger())
    assert built == ["credit.yaml"]
    assert Telling.told == list(stages)


def test_each_processor_builds_them_for_itself(federations: Path, home: Path) -> None:
    code = """
import os, sys
from opboost_ops.orchestration import dags
from opboost_ops.orchestration.federations import federation_dags
make = dags._build
dags._build = lambda *those: print("built", end=" ", flush=True) or make(*those)
for _ in range(2):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        print(len(federation_dags()), end=" ", flush=True)
        os._exit(0)
"""
    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-c", code, "dag-processor"],
            env={**os.environ, "AIRFLOW_HOME": str(home), "OPBOOST_FEDERATIONS": str(federations)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert told.endswith("built 3 3 ")
    assert len(entries(home)) == 1


def test_faults_are_found_at_each_parse(federations: Path, home: Path, built: list[str]) -> None:
    text = (federations / "credit.yaml").read_text()
    (federations / "later.yaml").write_text(text)
    for _ in range(2):
        found = parse(federations, home)
        assert "invalid" not in found["credit_scoring_train"].tags
        (second,) = (dag for dag in found.values() if "invalid" in dag.tags)
        assert "another file has the name credit_scoring too" in str(second.doc_md)
    (federations / "later.yaml").write_text("version: 7")
    for _ in range(2):
        assert "invalid" in parse(federations, home)["later_train"].tags
    assert built.count("later.yaml") == 4


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    federations: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = module._build

    def made(path: Path, *others: Any) -> list[DAG]:
        found = make(path, *others)
        path.write_text(path.read_text() + "# Changed.\n")
        return found

    monkeypatch.setattr(module, "_build", made)
    parse(federations, home)
    assert not entries(home)
