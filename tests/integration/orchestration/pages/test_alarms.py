"""A failure is one box at the top of the run's page, and the run's note."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from opboost_ops.exchange.manifest import run_id
from opboost_ops.orchestration.dags import run_notes
from tests.federation import Workspace
from tests.integration.orchestration.pages.airflow_runs import (
    TRAIN,
    forget_runs,
    tell_trees,
    write_run,
)
from tests.integration.orchestration.pages.conftest import Reader, allow
from tests.integration.orchestration.pages.reading import plain

RUN = "manual__2026-06-01T03:00:00+00:00"
TASK = "bank_release.desensitize"
TASKS = {"credit_open.open_run": "success", TASK: "failed", "credit_train.train": "upstream_failed"}
SAID = {"problem": "income would pass its budget.", "remedy": "Ask bank.", "refused": True}


@pytest.fixture
def runs(application: object) -> Iterator[None]:
    forget_runs()
    yield
    forget_runs()


def asked() -> str:
    return f"run?dag={TRAIN}&run={RUN.replace('+', '%2B')}"


@pytest.mark.parametrize("page", [asked(), f"run?id={run_id(TRAIN, RUN)}"])
def test_a_refused_budget_is_a_red_box_at_the_top(
    reader: Reader, untouched: Workspace, runs: None, page: str
) -> None:
    write_run(RUN, "failed", TASKS, {TASK: SAID})
    text = reader.page(page)
    box = text.index('class="note bad"')
    assert not re.search("<section|<table", text[:box])
    told = plain(text[box : text.index("</div>", box)])
    assert "bank: desensitize was refused by the budget." in told
    assert "income would pass its budget." in told
    assert "Ask bank." in told
    link = re.search(r'href="([^"]+)" data-airflow', text[box:])
    assert link is not None
    place = f"/dags/{TRAIN}/runs/{RUN.replace(':', '%3A').replace('+', '%2B')}/tasks/{TASK}"
    assert link[1] == place


def test_a_run_under_way_says_how_far_it_is_and_looks_again(
    reader: Reader, untouched: Workspace, runs: None
) -> None:
    states = {**TASKS, TASK: "running", "credit_train.train": "", "shop_release.rank": "queued"}
    write_run(RUN, "running", states)
    reply = reader.get(f"/opboost/{asked()}")
    assert reply.headers["refresh"] == "10"
    told = plain(reply.text)
    assert "1 of 4 tasks have ended" in told
    assert re.search(r"bank: desensitize: running, \d+ min", told)
    assert "shop: rank waits for a worker of the queue shop" in told
    write_run("over", "success")
    assert "refresh" not in reader.get(f"/opboost/run?dag={TRAIN}&run=over").headers


def test_a_run_under_way_says_how_far_training_is(
    reader: Reader, shown: Workspace, runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shown.home("credit").parent / run_id(TRAIN, RUN)
    shown.home("credit").rename(home)
    task = "credit_train.train"
    run_began = write_run(RUN, "running", {"credit_open.open_run": "success", task: "running"})
    began = run_began + timedelta(minutes=1)

    def keep(started: datetime) -> None:
        tell_trees(home.parents[1], home.name, started)

    keep(began + timedelta(seconds=2))
    told = "39 min: 120 of 400 trees, about 1 min more"
    assert f"credit: train: running, {told}" in plain(reader.page(asked()))
    assert "of 400" not in reader.page(f"{asked()}&party=bank")
    # An earlier try was killed and left it; the one that runs now has said nothing yet.
    keep(began - timedelta(seconds=1))
    assert "credit: train: running, 39 min" in plain(reader.page(asked()))
    assert "of 400" not in reader.page(asked())
    # Nor is it told of a task that has ended, whatever lies there.
    keep(began + timedelta(seconds=2))
    forget_runs()
    write_run(RUN, "running", {"credit_open.open_run": "success", task: "up_for_retry"})
    assert "of 400" not in reader.page(asked())
    # The deployment of others does not have this home.
    monkeypatch.delenv("OPBOOST_SITE_CREDIT")
    forget_runs()
    write_run(RUN, "running", {"credit_open.open_run": "success", task: "running"})
    assert "of 400" not in reader.page(asked())


def test_a_task_of_several_stages_says_which_one_runs(
    reader: Reader, shown: Workspace, runs: None
) -> None:
    home = shown.home("bank").parent / run_id(TRAIN, RUN)
    shown.home("bank").rename(home)
    began = write_run(RUN, "running", {"credit_open.open_run": "success", TASK: "running"})
    for stage, seconds in (("digest_ids", 61), ("preprocess", 70)):
        far = {"what": "rows", "done": 3, "of": 8, "first": 3, "counted": 1.0}
        started = (began + timedelta(seconds=seconds)).timestamp()
        (home / "progress").mkdir(exist_ok=True)
        (home / "progress" / f"{stage}.json").write_text(json.dumps({**far, "started": started}))
    assert "bank: desensitize: running, 39 min: preprocess: 3 of 8 rows" in plain(
        reader.page(asked())
    )


def test_a_failure_names_its_stage_on_every_page(
    reader: Reader, untouched: Workspace, runs: None
) -> None:
    failure = {"problem": "No room.", "remedy": "Make some.", "refused": False, "stage": "rank"}
    write_run(RUN, "failed", TASKS, {TASK: failure})
    for page in (asked(), "status"):
        assert "bank: rank" in plain(reader.page(page))


def test_a_run_in_which_nothing_was_done_says_so(
    reader: Reader, untouched: Workspace, runs: None
) -> None:
    write_run(RUN, "success", dict.fromkeys(TASKS, "skipped"))
    assert "Nothing was done in this run" in plain(reader.page(asked()))


def test_a_run_of_another_dag_is_not_shown(
    reader: Reader, untouched: Workspace, runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(RUN, "failed", TASKS, {TASK: SAID})
    assert "income" not in reader.page(asked().replace(TRAIN, "other_train"))
    allow(monkeypatch, lambda dag: False)
    assert "income" not in reader.page(asked(), status=403)


@pytest.mark.parametrize("taken", [True, False])
def test_the_runs_note_says_why_it_has_failed(runs: None, taken: bool) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    waits = {} if taken else {"shop_release.check_table": "queued"}
    write_run(RUN, "failed", {**TASKS, **waits}, {TASK: SAID}, ago=timedelta(hours=13))
    with create_session() as session:
        run = session.scalars(select(DagRun)).one()
        run.dag = SimpleNamespace(tags={"opboost"})
        # Where a person has marked it, no worker is to blame.
        run_notes.on_dag_run_failed(run, "Dag Run's state was manually set to `failed`.")
        assert run.note is None
        run_notes.on_dag_run_failed(run, "task_failure")
        note = str(run.note)
    assert "**bank: desensitize** has failed. income would pass its budget. Ask bank." in note
    assert ("No worker took shop_release.check_table from the queue shop" in note) is not taken


def test_no_worker_s_words_end_the_scheduler_or_lead_elsewhere(runs: None) -> None:
    """A database that keeps no NUL would refuse the note, at each try, in the scheduler's loop."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    hostile = {
        "problem": "No\x00 room\x1b[31m.\nLog in: https://mallory.example",
        "stage": "a\x00b",
    }
    failures = {TASK: {**hostile, "remedy": "Or see WWW.mallory.example\u202e."}}
    write_run(RUN, "failed", TASKS, failures)
    with create_session() as session:
        run = session.scalars(select(DagRun)).one()
        run.dag = SimpleNamespace(tags={"opboost"})
        run_notes.on_dag_run_failed(run, "task_failure")
        note = str(run.note)
    assert "has failed. No room" in note and "Log in" in note
    assert all(letter.isprintable() or letter in "\n\u2060" for letter in note)
    assert not re.search(r"://|www\.", note, re.IGNORECASE)


def test_an_xcom_that_no_task_leaves_is_not_read(reader: Reader, runs: None) -> None:
    """Any worker can write one of hundreds of megabytes, which scheduler and pages would load."""
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    write_run(RUN, "failed", TASKS, {TASK: SAID})
    with create_session() as session:
        session.execute(update(XComModel).values(value=json.dumps(SAID) + " " * 20_000))
    with create_session() as session:
        run = session.scalars(select(DagRun)).one()
        run.dag = SimpleNamespace(tags={"opboost"})
        run_notes.on_dag_run_failed(run, "task_failure")
        assert "income" not in str(run.note)
    text = reader.page(asked())
    assert "bank: desensitize has failed" in plain(text) and "income would" not in text


def test_the_note_of_a_run_whose_model_the_gate_rejected(runs: None) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    published = {"credit_publish.register": "success"}
    for run, state in (("kept", "skipped"), ("new", "success")):
        tasks = {**published, "credit_publish.announce_champion": state}
        write_run(run, "success", tasks)
    notes = {}
    with create_session() as session:
        for run in session.scalars(select(DagRun)):
            run.dag = SimpleNamespace(tags={"opboost"})
            run_notes.on_dag_run_success(run, "success")
            notes[run.run_id] = run.note
            run_notes.on_dag_run_running(run)
            assert run.note is None
    assert str(notes["kept"]).startswith("The gate rejected the model")
    assert notes["new"] is None
