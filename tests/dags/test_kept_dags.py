"""DAGs that are kept between parses: the same as built ones, and only while nothing has changed."""

import gc
import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.datasets.lenders import write_lenders
from opboost_ops.orchestration import dags as module
from opboost_ops.orchestration import federations as parsed
from opboost_ops.orchestration import kept_dags
from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.kept_dags import FOLDER, KeptDags

SETTING = "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "airflow"
    folder.mkdir()
    return folder


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were built."""
    names: list[str] = []
    make = module._made

    def made(path: Path, *others: Any) -> dict[str, DAG]:
        names.append(path.name)
        return make(path, *others)

    monkeypatch.setattr(module, "_made", made)
    return names


def parse(
    files: Path, home: Path, parties: tuple[str, ...] | None = None, only: str | None = None
) -> dict[str, DAG]:
    return build_dags(files, parties, only, KeptDags(files, parties, home))


def serialized(dags: dict[str, DAG]) -> str:
    # Sets have no order of their own.
    return json.dumps({n: DagSerialization.to_dict(dag) for n, dag in dags.items()}, default=sorted)


def entries(home: Path) -> list[Path]:
    return sorted(path for path in (home / FOLDER).rglob("*") if path.is_file())


def changed(files: Path, **more: Any) -> None:
    path = files / "credit.yaml"
    data = yaml.safe_load(path.read_text())
    data["parties"]["bank"].update(more.pop("bank", {}))
    path.write_text(yaml.safe_dump({**data, **more}, sort_keys=False))


@pytest.mark.parametrize("parties", [None, ("credit",), ("shop", "bank"), ("elsewhere",)])
@pytest.mark.parametrize("bank", [{}, {"shards": True}, {"pool": "one", "queue": "q"}])
@pytest.mark.parametrize("schedule", [{}, {"on_tables": "0 * * * *"}, {"cron": "0 3 * * 1"}])
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


def test_what_is_kept_runs(federations: Path, home: Path) -> None:
    parse(federations, home)
    dag = parse(federations, home)["credit_scoring_train"]
    task = dag.get_task("credit_open.open_run")
    assert (
        task.python_callable
        is build_dags(federations)[dag.dag_id].get_task(task.task_id).python_callable
    )
    assert task.on_failure_callback


def a_setting(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "77")


def a_configuration(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "airflow.cfg").write_text("[core]\n")
    monkeypatch.setattr(kept_dags, "AIRFLOW_CONFIG", str(home / "airflow.cfg"))


def the_code(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_dags, "_code", lambda: "another")


def what_is_installed(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "packages").mkdir()
    monkeypatch.setattr(kept_dags, "_PACKAGES", home / "packages")


def a_table_beside_it(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "channel.json").write_text("{}")


def its_comment(files: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files / "credit.yaml"
    path.write_text(path.read_text() + "# Looked at.\n")


@pytest.mark.parametrize(
    "change",
    [a_setting, a_configuration, the_code, what_is_installed, a_table_beside_it, its_comment],
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
    monkeypatch.setattr(module, "_made", lambda *_: {})
    kept = KeptDags(federations, None, home)
    before = kept._key(federations / "credit.yaml")
    (pods / "bank.yaml").write_text("spec: {}")
    assert KeptDags(federations, None, home)._key(federations / "credit.yaml") != before


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
    assert set(parse(federations, home)) == {
        f"credit_scoring_{w}" for w in ("train", "score", "acts")
    }
    assert len(entries(home)) == 1


def test_a_task_takes_its_own_alone_and_keeps_nothing(
    federations: Path, home: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(parse(federations, home, only="credit_scoring_acts")) == {"credit_scoring_acts"}
    assert len(built) == 1 and not entries(home)
    parse(federations, home)
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "of a task")
    assert set(parse(federations, home, only="credit_scoring_acts")) == {"credit_scoring_acts"}
    assert len(built) == 2


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
    assert built.count("later.yaml") == 3


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    federations: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = module._made

    def made(path: Path, *others: Any) -> dict[str, DAG]:
        found = make(path, *others)
        path.write_text(path.read_text() + "# Changed.\n")
        return found

    monkeypatch.setattr(module, "_made", made)
    parse(federations, home)
    assert not entries(home)


@pytest.mark.parametrize("fault", ["cut", "other", "empty", "of another version"])
def test_what_is_damaged_is_built_anew(
    federations: Path, home: Path, built: list[str], fault: str
) -> None:
    parse(federations, home)
    (entry,) = entries(home)
    head, _, body = entry.read_bytes().partition(b"\n")
    entry.write_bytes(
        {
            "cut": head + b"\n" + body[:-9],
            "other": head + b"\n" + body[:-1] + bytes([body[-1] ^ 1]),
            "empty": b"",
            "of another version": b"2 " + body,
        }[fault]
    )
    assert serialized(parse(federations, home)) == serialized(build_dags(federations))
    assert built == ["credit.yaml"] * 3
    parse(federations, home)
    assert len(built) == 3


class Planted:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {os.environ['PLANTED']}",)


@pytest.mark.parametrize("way", ["writable", "readable", "a link", "a file", "another's"])
def test_nothing_is_read_that_somebody_else_may_have_written(
    federations: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("PLANTED", str(tmp_path / "planted"))
    parse(federations, home)
    (entry,) = entries(home)
    head, _, _ = entry.read_bytes().partition(b"\n")
    body = pickle.dumps(Planted())
    key = head.split()[0].decode()
    entry.write_bytes(f"{key} {kept_dags.hashlib.sha256(body).hexdigest()}\n".encode() + body)
    (entry.parent / "precious").touch()
    own = home / FOLDER
    if way == "a link":
        own.rename(tmp_path / "elsewhere")
        own.symlink_to(tmp_path / "elsewhere")
    elif way == "another's":
        monkeypatch.setattr(kept_dags.os, "geteuid", lambda: os.getuid() + 1)
    elif way == "a file":
        entry.chmod(0o644)
    else:
        own.chmod(0o777 if way == "writable" else 0o750)
    before = entry.resolve().read_bytes() if way == "a link" else entry.read_bytes()
    assert "credit_scoring_train" in parse(federations, home)
    assert not (tmp_path / "planted").exists()
    if way != "a file":
        # Nor is anything written or removed there.
        assert before in [path.read_bytes() for path in entries(home)]
        assert "precious" in [path.name for path in entries(home)]
    monkeypatch.undo()
    monkeypatch.setenv("PLANTED", str(tmp_path / "planted"))
    if way == "another's":
        # The same bytes in one's own folder would have run.
        parse(federations, home)
        assert (tmp_path / "planted").exists()


def test_it_is_this_users_alone(federations: Path, home: Path) -> None:
    before = os.umask(0)
    try:
        parse(federations, home)
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in [home / FOLDER, *entries(home)]}
    assert sorted(modes.values()) == [0o600, 0o700]


@pytest.mark.parametrize("obstacle", ["a file", "no home"])
def test_where_nothing_can_be_kept_they_are_built(
    federations: Path, home: Path, built: list[str], obstacle: str
) -> None:
    if obstacle == "a file":
        (home / FOLDER).write_text("")
    else:
        home.rmdir()
    for _ in range(2):
        assert "credit_scoring_train" in parse(federations, home)
    assert len(built) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_collections_go_on_after_a_parse(
    federations: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    collects = []

    def build(*arguments: Any) -> dict[str, DAG]:
        collects.append(gc.isenabled())
        return {} if not fails else {}[""]

    monkeypatch.setattr(parsed, "build_dags", build)
    run: Callable[[], Any] = partial(parsed.federation_dags)
    if fails:
        with pytest.raises(KeyError):
            run()
    else:
        run()
    assert collects == [False] and gc.isenabled()
