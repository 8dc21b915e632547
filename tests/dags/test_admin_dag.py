"""The DAG by which people act: a task per party, a form without own words, others skipped."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from opboost_ops.orchestration.dags import admin_dag, tasks
from opboost_ops.orchestration.dags.factory import build_dags
from tests.dags.conftest import declare
from tests.dags.test_notifications import told as told
from tests.federation import FIRST_RUN, Workspace
from tests.party_state import state_of

NAME = "credit_scoring"
WORDS = "Alice Meyer has asked for it"


@pytest.fixture
def dag(federations: Path) -> DAG:
    return build_dags(federations)[f"{NAME}_admin"]


def test_each_party_has_a_task_on_its_own_queue(federations: Path) -> None:
    dag = declare(federations, parties={"bank": {"queue": "bank_queue"}})[f"{NAME}_admin"]
    assert {task.task_id: (task.owner, task.queue, task.pool) for task in dag.tasks} == {
        "credit_act": ("credit", "default", "default_pool"),
        "shop_act": ("shop", "default", "default_pool"),
        "bank_act": ("bank", "bank_queue", "default_pool"),
    }
    assert not any(task.upstream_task_ids for task in dag.tasks)
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(again.task_dict) == set(dag.task_ids)
    half = build_dags(federations, ["bank"])[f"{NAME}_admin"]
    assert half.task_ids == ["bank_act"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"party": "bank", "act": "stop"},
        {"party": "bank", "act": "stop", "reason": WORDS},
        {"party": "lender", "act": "stop", "reason": "drift"},
        {"party": "bank", "act": "forget", "reason": "drift"},
        {"party": "bank", "act": "promote", "reason": "drift", "version": "../keys"},
    ],
)
def test_a_form_that_lacks_a_field_or_has_own_words_is_refused_by_airflow(
    dag: DAG, given: dict[str, str]
) -> None:
    with pytest.raises(ParamValidationError):
        dag.params.update(given)
        dag.params.validate()


def run(
    monkeypatch: pytest.MonkeyPatch,
    party: str,
    form: dict[str, Any],
    run_id: str = "manual__1",
    run_type: str = "manual",
    age: timedelta = timedelta(),
    **more: Any,
) -> dict[str, Any]:
    """What a party's task returns, in a context as Airflow gives it."""
    left: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id=f"{NAME}_admin",
        task_id=f"{party}_act",
        run_id=run_id,
        xcom_push=lambda key, value: left.update({key: value}),
    )
    fields = {"dag_id": ti.dag_id, "run_id": ti.run_id, "triggering_user_name": "ann"}
    context = {
        "dag_run": SimpleNamespace(
            **fields, run_type=run_type, run_after=datetime.now(UTC) - age, conf={**form, **more}
        ),
        "params": {"version": None, **form},
        "task": SimpleNamespace(owner=party, op_kwargs={"federation": NAME}),
        "ti": ti,
    }
    monkeypatch.setattr(tasks, "get_current_context", lambda: context)
    return tasks.act(party, NAME)


def test_a_party_does_what_is_asked_of_it_alone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]]
) -> None:
    stop = {"party": "bank", "act": "stop", "reason": "privacy"}
    with pytest.raises(AirflowSkipException, match="no action is requested of this party"):
        run(monkeypatch, "shop", stop)
    done = run(monkeypatch, "bank", stop)
    assert "privacy" not in str(done)
    with state_of(workspace, "bank") as state:
        (entry,) = state.audit.of("stopped")
    assert entry.detail == "ann through Airflow: privacy"
    assert [(t["event"], t["party"]) for t in told] == [("schedule_stopped", "bank")]
    with state_of(workspace, "shop") as state:
        assert state.audit.of("stopped") == []
    promote = {"party": "credit", "act": "promote", "version": FIRST_RUN, "reason": "a trial"}
    assert run(monkeypatch, "credit", promote, "manual__2")["version"] == FIRST_RUN
    assert told[-1]["event"] == "champion_changed"
    assert "a trial" not in str(told)


def test_a_run_that_no_person_has_triggered_does_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow gives it the name of the user who triggered the run of the task that started it."""
    stop = {"party": "bank", "act": "stop", "reason": "privacy"}
    for kind in ("operator_triggered", "asset_triggered", "backfill"):
        with pytest.raises(AirflowFailException, match="only a person may request"):
            run(monkeypatch, "bank", stop, run_type=kind)
    with state_of(workspace, "bank") as state:
        assert state.audit.of("stopped", "act_refused") == []


def test_a_request_expires_if_no_worker_takes_it_within_an_hour(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = {"party": "bank", "act": "stop", "reason": "privacy"}
    with pytest.raises(AirflowFailException, match="more than an hour ago"):
        run(monkeypatch, "bank", stop, age=timedelta(hours=2))
    run(monkeypatch, "bank", stop, age=timedelta(minutes=50))


def test_a_run_that_was_refused_acts_for_nobody_who_clears_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = {"party": "bank", "act": "stop", "reason": "privacy"}
    run(monkeypatch, "bank", stop)
    with pytest.raises(AirflowFailException, match="already stopped"):
        run(monkeypatch, "bank", stop, "manual__2")
    run(monkeypatch, "bank", {**stop, "act": "resume"}, "manual__3")
    with pytest.raises(AirflowSkipException, match="was refused already"):
        run(monkeypatch, "bank", stop, "manual__2")
    with state_of(workspace, "bank") as state:
        entries = state.audit.of("stopped", "resumed", "act_refused")
    assert [entry.action for entry in entries] == ["stopped", "act_refused", "resumed"]


def test_a_run_that_acted_before_is_skipped(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]]
) -> None:
    """Cleared, or deleted and triggered again under its id with another form."""
    stop = {"party": "bank", "act": "stop", "reason": "privacy"}
    run(monkeypatch, "bank", stop)
    for again in (stop, {**stop, "act": "resume"}):
        with pytest.raises(AirflowSkipException, match="this run stopped already"):
            run(monkeypatch, "bank", again)
    assert len(told) == 1
    with state_of(workspace, "bank") as state:
        assert len(state.audit.of("stopped", "resumed")) == 1


def test_a_run_id_that_names_another_run_does_not_pass_the_policy(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`joined__` and the id of an earlier, permitted act stood for a forbidden one."""
    earlier = run(monkeypatch, "bank", {"party": "bank", "act": "stop", "reason": "privacy"})
    workspace.declare("bank/policy.yaml", acts=[])
    resume = {"party": "bank", "act": "resume", "reason": "privacy"}
    with pytest.raises(AirflowFailException, match="does not allow resume"):
        run(monkeypatch, "bank", resume, run_id=f"joined__{earlier['run']}")
    with state_of(workspace, "bank") as state:
        assert [entry.action for entry in state.audit.of("resumed", "act_refused")] == [
            "act_refused"
        ]


def test_own_words_in_an_unknown_field_are_refused_and_not_repeated(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = {"party": "bank", "act": "stop", "reason": "privacy"}
    with pytest.raises(AirflowFailException, match="nothing was done") as caught:
        run(monkeypatch, "bank", stop, because=WORDS)
    assert "Alice" not in str(caught.value) + caplog.text
    with state_of(workspace, "bank") as state:
        assert state.audit.of("stopped", "act_refused") == []


class _Instance(SimpleNamespace):
    def set_state(self, state: str, session: object) -> None:
        assert session is not None
        self.state = state


@pytest.mark.parametrize(
    ("tags", "party", "expected"),
    [
        ({"opboost", "admin"}, "bank", {"bank_act": None, "shop_act": "skipped"}),
        ({"opboost", "admin"}, "nobody", {"bank_act": None, "shop_act": None}),
        ({"opboost", "train"}, "bank", {"bank_act": None, "shop_act": None}),
    ],
)
def test_tasks_of_other_parties_need_no_worker(
    monkeypatch: pytest.MonkeyPatch, tags: set[str], party: str, expected: dict[str, Any]
) -> None:
    monkeypatch.setattr(admin_dag, "our_session", lambda _: object())
    instances = [_Instance(task_id=name, state=None) for name in expected]
    run = SimpleNamespace(
        dag=SimpleNamespace(tags=tags),
        conf={"party": party},
        get_task_instances=lambda session: instances,
    )
    admin_dag.on_dag_run_running(run)
    assert {ti.task_id: ti.state for ti in instances} == expected
