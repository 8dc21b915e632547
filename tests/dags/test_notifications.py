"""What Airflow's notifiers are told. By runs of the whole DAG: in `tests/leakage`."""

import asyncio
import hmac
import json
import logging
import runpy
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.errors import ConfigError, PolicyError
from opboost_ops.orchestration.dags import notifications, tasks
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.run_notes import NetworkError, TaskFailedError
from tests.dags.conftest import declare


class Keeping(BaseNotifier):
    """Keeps what it is told, and its own rendered template."""

    template_fields = ("text",)
    told: ClassVar[list[dict[str, Any]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.text = "{{ party }}: {{ message }}"

    def notify(self, context: Any) -> None:
        self.told.append({**context, "text": self.text})


class Failing(BaseNotifier):
    """Fails, with words that belong nowhere."""

    def notify(self, context: Any) -> None:
        raise ValueError("https://example.org/token")


GOOD: dict[str, Any] = {event: [Failing(), Keeping()] for event in notifications.EVENTS}
NO_MAPPING = [Keeping()]
UNKNOWN = {"failures": [Keeping()]}
NO_LIST = {"failure": Keeping()}
NO_NOTIFIER = {"drift": [print]}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    monkeypatch.setenv("OPBOOST_NOTIFIERS", f"{__name__}:GOOD")
    Keeping.told.clear()
    yield Keeping.told
    Keeping.told.clear()


def context(task_id: str, error: Exception | None = None) -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="credit_scoring_train", task_id=task_id, run_id="manual__1")
    party = task_id.split("_")[0]
    return {"ti": ti, "task": SimpleNamespace(owner=party), "exception": error, "params": {"x": 1}}


def test_a_notifier_sees_public_words_only_and_is_rendered_anew(told: list[Any]) -> None:
    for party in ("bank", "shop"):
        failed = AirflowFailException(f"bad table of {party}.")
        notifications.on_failure(context(f"{party}_release.check_table", error=failed))
    words = {"federation", "party", "stage", "run", "dag_id", "task_id", "run_id", "message"}
    assert set(told[0]) == words | {"event", "text"}
    assert [entry["text"] for entry in told] == [
        "bank: bad table of bank.",
        "shop: bad table of shop.",
    ]
    assert GOOD["failure"][1].text == "{{ party }}: {{ message }}"


def test_a_notifier_that_fails_says_no_foreign_word(
    told: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        notifications.on_failure(context("bank_release.check_table"))
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["the notifier Failing of failure failed (ValueError)"]
    assert "example.org" not in caplog.text
    assert len(told) == 1


def test_a_failure_names_the_stage_of_its_task(told: list[Any]) -> None:
    for error in (TaskFailedError("bad.", "", "rank"), NetworkError("away.", "rank")):
        notifications.on_failure(context("bank_release.desensitize", error=error))
    notifications.notice(context("bank_release.check_table"), "drift", "check_drift")
    assert [entry["stage"] for entry in told] == ["rank", "rank", "check_drift"]
    assert (told[-1]["event"], told[-1]["party"]) == ("drift", "bank")
    assert "quality folder" in told[-1]["message"]


@pytest.mark.parametrize(
    ("error", "event", "message"),
    [
        (notifications.BudgetRefusedError("over."), "refused_budget", "over."),
        (ConnectionError("train: the network failed."), "failure", "train: the network failed."),
        (ValueError("cell-4711"), "failure", "The task failed (ValueError)."),
        (None, "failure", "The task's process ended without a message"),
    ],
)
def test_which_failure_is_told_how(
    told: list[Any], error: Exception | None, event: str, message: str
) -> None:
    notifications.on_failure(context("bank_release.seal", error=error))
    (found,) = told
    assert found["event"] == event
    assert found["message"].startswith(message)


@pytest.mark.parametrize(("champion", "event"), [(True, "champion_changed"), (False, "model_kept")])
def test_the_verdict_on_a_version_is_reported(told: list[Any], champion: bool, event: str) -> None:
    summary = {"version": "ab", "champion": champion, "why": "measured"}
    notifications.registered(context("credit_publish.register"), summary)
    (entry,) = told
    assert entry["event"] == event and "ab" in entry["message"] and "measured" in entry["message"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("notifiers", "not of the form package.module:name"),
        ("../x:y", "not of the form package.module:name"),
        ("absent_module:x", r"cannot be imported \(ModuleNotFoundError\)"),
        (f"{__name__}:NO_MAPPING", "not a mapping"),
        (f"{__name__}:UNKNOWN", "unknown events: failures. Choose one of failure, refused_budget"),
        (f"{__name__}:NO_LIST", "failure in .* is not a list of Airflow notifiers"),
        (f"{__name__}:NO_NOTIFIER", "drift in .* is not a list of Airflow notifiers"),
    ],
)
def test_a_wrong_value_fails_each_task_before_it_begins_and_no_dag(
    monkeypatch: pytest.MonkeyPatch, federations: Path, value: str, problem: str
) -> None:
    monkeypatch.setenv("OPBOOST_NOTIFIERS", value)
    with pytest.raises(ConfigError, match=problem):
        notifications.notifiers()
    begun = []
    with pytest.raises(AirflowFailException, match=problem):
        tasks.execute("train", lambda: {"begun": begun.append(1)})
    assert begun == []
    assert "invalid" not in build_dags(federations)["credit_scoring_train"].tags


def test_all_tasks_of_all_dags_have_the_callbacks(federations: Path) -> None:
    dags = declare(federations, schedule={"on_tables": "*/5 * * * *"})
    assert len(dags) == 4
    for dag in dags.values():
        for task in dag.tasks:
            assert list(task.on_failure_callback) == [notifications.on_failure]
            # Nothing is reported because Airflow says that a task has succeeded.
            assert not task.on_success_callback


@pytest.mark.parametrize(
    ("notice", "event"),
    [("agreement_needed", "agreement_needed"), ("schedule_stopped", "schedule_stopped"), ("", "")],
)
def test_a_refusal_is_told_to_the_partys_own_people(
    told: list[Any], monkeypatch: pytest.MonkeyPatch, notice: str, event: str
) -> None:
    monkeypatch.setattr(tasks, "get_current_context", lambda: context("bank_release.check_table"))
    error = PolicyError("bank refused run x.", notice=notice)

    def work() -> dict[str, Any]:
        raise error

    with pytest.raises(AirflowFailException, match="refused run"):
        tasks.execute("check_table at bank", work)
    assert [entry["event"] for entry in told] == ([event] if event else [])
    assert all("home" in entry["message"] or "resume" in entry["message"] for entry in told)


def test_a_late_run_is_told_of_in_words_that_lead_to_its_page(told: list[Any]) -> None:
    run = {"dag_id": "credit_scoring_train", "dag_run_id": "manual__1", "conf": {"x": "secret"}}
    for state in ("failed", "running"):
        late = {"dag_run": {**run, "state": state}, "deadline": {"id": "1"}}
        asyncio.run(notifications.on_late(late))
    (one,) = told
    assert one["event"] == "run_late" and one["federation"] == "credit_scoring"
    assert one["run_id"] == "manual__1" and "15 minutes longer" in one["message"]
    assert "secret" not in repr(told)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    posted: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.posted.append((self.headers["X-Signature-256"], self.rfile.read(length)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing."""


def test_the_example_posts_promotions_with_a_signature(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PROMOTIONS_URL", f"http://127.0.0.1:{server.server_port}/secret-path")
    monkeypatch.setenv("PROMOTIONS_KEY", "key of the receiver")
    monkeypatch.setenv("NOTIFICATIONS_FILE", str(tmp_path / "lines"))
    example = runpy.run_path(str(Path(__file__).parents[2] / "docs/examples/notifiers.py"))
    monkeypatch.setattr(f"{__name__}.GOOD", example["NOTIFIERS"])
    monkeypatch.setenv("OPBOOST_NOTIFIERS", f"{__name__}:GOOD")
    summary = {"champion": True, "version": "v7", "why": "better"}
    done = context("credit_publish.register")
    notifications.registered(done, summary)
    ((signature, body),) = Receiver.posted
    expected = hmac.new(b"key of the receiver", body, "sha256").hexdigest()
    assert signature == f"sha256={expected}"
    words = json.loads(body)
    assert (words["event"], words["federation"]) == ("champion_changed", "credit_scoring")
    assert "v7" in words["message"] and set(words) == {"event", "federation", "run", "message"}
    # One that does not answer is a warning without its address.
    server.shutdown()
    server.server_close()
    notifications.registered(done, summary)
    assert "Webhook of champion_changed failed" in caplog.text
    assert "secret-path" not in caplog.text and "Traceback" not in caplog.text
