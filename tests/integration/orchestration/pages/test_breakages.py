"""What each page says when something breaks at night: each page and alarm."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.session import create_session
from sqlalchemy import delete, insert, update

from opboost_ops.exchange.manifest import run_id
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.notifications import EVENTS
from opboost_ops.pipeline.party.admin_actions import from_airflow
from tests.federation import Workspace
from tests.integration.orchestration.pages.airflow_runs import NEXT, TRAIN, known_dags, write_run
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import plain

DOCS = Path(__file__).parents[4] / "docs"
NAME, SCORE = "credit_scoring", "credit_scoring_score"
TASK = "bank_release.desensitize"
BEFORE = timedelta(days=2)
FULL = "check_table at bank found no space left on a disk of its own."

Broken = Callable[[Workspace], None]


def failed(problem: str, dag: str = TRAIN, task: str = "bank_release.check_table") -> None:
    said = {task: {"problem": problem, "remedy": "Correct it."}}
    write_run("night", "failed", {task: "failed"}, said, dag=dag)


def no_score_table(shown: Workspace) -> None:
    failed("The table of bank cannot be used in this run.", SCORE)


def stopped(shown: Workspace) -> None:
    from_airflow("bank", NAME, "a" * 16, "ann", {"act": "stop", "reason": "privacy"})
    failed(f"bank refused run {'b' * 16} of {NAME} and releases nothing more of this run.")


def store_away(shown: Workspace) -> None:
    (shown.folder / "exchange").rename(shown.folder / "away")
    (shown.folder / "exchange").mkdir()
    failed(f"The store of bank is not the one that its runs of {NAME} use: it is empty.")


def full_disk(shown: Workspace) -> None:
    failed(FULL)


def scheduler_killed(shown: Workspace) -> None:
    write_run("night", "running", {TASK: "queued"}, ago=timedelta(hours=3))


def broken_file(shown: Workspace) -> None:
    folder = shown.folder / "broken"
    folder.mkdir()
    declared = {"name": NAME, "version": 1, "parties": {}, "trees": 3}
    (folder / "federation.yaml").write_text(yaml.safe_dump(declared))
    (dag,) = build_dags(folder / "federation.yaml").values()
    with create_session() as session:
        session.execute(insert(DagTag).values(dag_id=TRAIN, name="invalid"))
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), "b", session=session)


def two_runs(shown: Workspace) -> None:
    write_run("night", "running", {TASK: "running"}, ago=timedelta(minutes=5))
    write_run("next", "queued", {TASK: ""}, ago=timedelta(minutes=1))


def marked(shown: Workspace) -> None:
    write_run("night", "failed", {TASK: "failed"})
    with create_session() as session:
        entry = {"dag_id": TRAIN, "run_id": "night", "owner": "ann", "event": "patch_dag_run"}
        extra = json.dumps({"state": "failed", "method": "PATCH"})
        session.execute(insert(Log).values(**entry, extra=extra, dttm=datetime.now(UTC)))


def cleared(shown: Workspace) -> None:
    failed(FULL)
    with create_session() as session:
        session.execute(update(TaskInstance).values(state="running"))
        session.execute(update(DagRun).where(DagRun.run_id == "night").values(state="running"))


def deleted(shown: Workspace) -> None:
    failed(FULL)
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.run_id == "night"))


def nonsense(shown: Workspace) -> None:
    dag = build_dags(shown.folder / "federation.yaml")[TRAIN]
    for field in ("trees", "learning_rate", "depth"):
        dag.params[field] = 3 if field != "learning_rate" else "0.1"
        dag.params.validate()
        with pytest.raises(ParamValidationError):
            dag.params[field] = "lots"
        dag.params[field] = None


def paused(shown: Workspace) -> None:
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == TRAIN).values(is_paused=True))


def another_type(shown: Workspace) -> None:
    failed("bank.income is declared numeric, and its column is of type String.")


@dataclass(frozen=True)
class Breakage:
    """What happens, and what is then read.

    Attributes:
        happen: Makes it happen.
        status: A text of Status.
        run: A text of the run's page.
        document: An entry of `status.json`, and its value.
        alarms: Alarms and notifications that ring.
    """

    happen: Broken
    status: str
    run: str
    document: str
    alarms: tuple[str, ...]


BREAKAGES = {
    "The table of new rows is missing": Breakage(
        no_score_table,
        status="The last run of scoring failed",
        run="cannot be used in this run",
        document="purposes.score.last_run.state: failed",
        alarms=("OpBoostRunFailed", "failure"),
    ),
    "A party stops in the middle of a run": Breakage(
        stopped,
        status="bank has stopped taking part in credit_scoring: by ann through Airflow",
        run="bank refused run",
        document="parties.bank.stopped_by: ann",
        alarms=("schedule_stopped", "OpBoostNoSuccess"),
    ),
    "The store is away": Breakage(
        store_away,
        status="The store of bank is not the one that its runs of credit_scoring use",
        run="is not the one that its runs of credit_scoring use",
        document="parties.bank.store: ...",
        alarms=("OpBoostRunFailed", "failure"),
    ),
    "A disk is full": Breakage(
        full_disk,
        status="The last run of training failed",
        run="at bank found no space left on a disk of its own",
        document="last_run.state: failed",
        alarms=("OpBoostRunFailed", "failure"),
    ),
    "The scheduler was killed": Breakage(
        scheduler_killed,
        status="A training run started",
        run="This run is under way",
        document="last_run.state: running",
        alarms=("OpBoostNoSuccess", "OpBoostRunLate"),
    ),
    "`federation.yaml` is broken": Breakage(
        broken_file,
        status="The file of credit_scoring is faulty: no run begins.",
        run="Airflow",
        document="faults: ...",
        alarms=("OpBoostNoSuccess",),
    ),
    "Two runs at once": Breakage(
        two_runs,
        status="A training run started 5 min ago",
        run="This run is under way",
        document="last_run.name: night",
        alarms=(),
    ),
    "A person marked the run as failed": Breakage(
        marked,
        status="The last run of training was marked as failed by ann",
        run="ann marked this run as failed, in Airflow.",
        document="last_run.marked_by: ann",
        alarms=("OpBoostNoSuccess",),
    ),
    "The failed run was cleared": Breakage(
        cleared,
        status="A training run started",
        run="This run is under way",
        document="last_run.state: running",
        alarms=(),
    ),
    "The failed run was deleted": Breakage(
        deleted,
        status="Last success 2 d",
        run="Airflow has no such run",
        document="last_run.name: good",
        alarms=(),
    ),
    "Nonsense in the trigger form": Breakage(
        nonsense,
        status="Last success 2 d",
        run="Airflow has no such run",
        document="last_run.name: good",
        alarms=(),
    ),
    "The DAG is paused": Breakage(
        paused,
        status="paused in Airflow: credit_scoring_train",
        run="Airflow",
        document="paused: ...",
        alarms=("OpBoostNoSuccess",),
    ),
    "The table has another type": Breakage(
        another_type,
        status="The last run of training failed",
        run="is declared numeric, and its column is of type",
        document="last_run.state: failed",
        alarms=("OpBoostRunFailed", "failure"),
    ),
}


@pytest.fixture(autouse=True)
def dags(application: object) -> Iterator[None]:
    """Airflow's database with a success of each DAG two days ago."""
    with known_dags(TRAIN, SCORE, due=NEXT):
        for dag in (TRAIN, SCORE):
            write_run("good", "success", dag=dag, ago=BEFORE)
        yield


def entry(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document[name]
    return document


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_what_each_page_says(reader: Reader, shown: Workspace, breakage: str) -> None:
    expected = BREAKAGES[breakage]
    expected.happen(shown)
    score = "new rows" in breakage
    page = f"run?dag={SCORE if score else TRAIN}&run=night"
    for path, words in (
        ("status", expected.status),
        (page, expected.run),
    ):
        text = unescape(plain(reader.page(path)))
        assert words in text, (path, text)
    one = reader.standing()
    path, _, value = expected.document.partition(": ")
    assert str(entry(one, path)) == value or (value == "..." and entry(one, path))
    # A run that has failed by itself rings, and a stop; a person's own mark does not.
    last = one["purposes"]["score" if score else "train"]["last_run"]
    stops = any(party["stopped"] for party in one["parties"].values())
    fails = last["state"] == "failed" and not last["marked_by"] and not stops
    rings = tuple(n in expected.alarms for n in ("OpBoostRunFailed", "failure", "schedule_stopped"))
    assert rings == (fails, fails, stops), last
    rules = (DOCS / "monitoring" / "alerts.yaml").read_text()
    known = set(re.findall(r"alert: (\w+)", rules)) | set(EVENTS)
    assert set(expected.alarms) <= known


def test_a_failed_run_says_what_it_cost_and_what_comes_next(
    reader: Reader, shown: Workspace
) -> None:
    run = shown.home("bank").name
    assert run == run_id(TRAIN, "night") or len(run) == 16
    failed("No space is left.")
    for page in ("status", f"run?dag={TRAIN}&run=night"):
        text = plain(reader.page(page))
        assert "Released and charged nothing: bank, credit, shop." in text
        assert "stays in use" in text
        assert "The next run is due at 2031-05-06 03:00 UTC." in text
        assert "clear the failed task" in text
