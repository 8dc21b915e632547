"""Users of a running Airflow as attackers; docs/threat-model.md says what each of them can do."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.manifest import JOINED, own_run_id, run_id
from opboost_ops.exchange.party_state import open_state
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.e2e.conftest import NARROW, OTHERS
from tests.waiting import ended, errors, states, until

pytestmark = pytest.mark.slow

NAME = "credit_scoring"
TRAIN, ADMIN, SECOND = f"{NAME}_train", f"{NAME}_admin", "second_train"
STOP = {"party": "bank", "act": "stop", "reason": "privacy"}
PASSWORD, SECRET = "password-of-prod-db", "value-of-a-variable"
CANARY = "{{ conn.prod_db.password }}{{ var.value.canary }}"
MALLORY = "<img src=x onerror=alert(1)>[see](https://mallory.example) mallory"

_TIGHTER = """
raw_table:
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1000000}
"""

#: What a worker can do with the token of any task: the supervisor passes on whatever it sends.
_WORKER = """
from airflow.sdk import DAG, get_current_context, task

with DAG("mallory", schedule=None, is_paused_upon_creation=False):

    @task
    def attack():
        from airflow.sdk.execution_time.comms import SetXCom, TriggerDagRun
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

        conf = get_current_context()["dag_run"].conf
        for entry in conf.get("xcoms", ()):
            SUPERVISOR_COMMS.send(SetXCom(**entry))
        for entry in conf.get("runs", ()):
            SUPERVISOR_COMMS.send(TriggerDagRun(**entry))

    attack()
"""


@pytest.fixture(scope="module")
def worker(airflow: Standalone, client: Client) -> str:
    """The DAG of a worker that sends what it likes with its task's token."""
    (airflow.home / OTHERS / "mallory.py").write_text(_WORKER)
    until(lambda: client.has_dag("mallory"), "the worker's DAG", 120)
    return "mallory"


@pytest.fixture
def forbidden(workspace: Path) -> Iterator[None]:
    """The bank's policy allows nothing through Airflow."""
    path = workspace / "bank" / "policy.yaml"
    before = path.read_text()
    path.write_text(yaml.safe_dump({**yaml.safe_load(before), "acts": []}))
    yield
    path.write_text(before)


def actions(workspace: Path, party: str = "bank") -> list[str]:
    with open_state(load_site(workspace / party / "site.yaml")) as state:
        return [e.action for e in state.audit.of("stopped", "resumed", "act_refused")]


def mark(client: Client, dag: str, run: str, task: str, state: str = "success") -> None:
    place = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}"
    client.http.patch(place, json={"new_state": state}).raise_for_status()


def paused(client: Client) -> list[str]:
    dags = client.get("dags", limit=100)["dags"]
    return [dag["dag_id"] for dag in dags if dag["is_paused"]]


def begin(client: Client, dag: str, run: str, form: dict[str, Any]) -> None:
    body = {"logical_date": None, "conf": form, "dag_run_id": run}
    client.http.post(f"/api/v2/dags/{dag}/dagRuns", json=body).raise_for_status()


def test_a_refused_act_that_is_marked_as_done_does_nothing(
    client: Client, workspace: Path, forbidden: None
) -> None:
    before, stopped = paused(client), actions(workspace).count("stopped")
    run = client.trigger(ADMIN, STOP)
    assert ended(client, ADMIN, run) == "failed"
    mark(client, ADMIN, run, "bank_act")
    place = f"/api/v2/dags/{ADMIN}/dagRuns/{run}"
    client.http.patch(place, json={"state": "success"}).raise_for_status()
    until(lambda: client.run(ADMIN, run)["state"] == "success", "the marked run", 60)
    assert actions(workspace)[-1] == "act_refused"
    assert actions(workspace).count("stopped") == stopped
    page = client.http.get("/opboost/status.json").json()["federations"]
    assert not any(p["stopped"] for f in page for p in f["parties"])
    assert paused(client) == before
    assert not [
        entry
        for entry in client.get(f"dags/{TRAIN}/dagRuns", limit=100)["dag_runs"]
        if "stopped taking part" in (entry["note"] or "")
    ]


def test_a_run_id_of_an_earlier_act_stands_for_nothing(client: Client, workspace: Path) -> None:
    run = client.trigger(ADMIN, STOP)
    assert ended(client, ADMIN, run) == "success"
    policy = workspace / "bank" / "policy.yaml"
    allowed = policy.read_text()
    policy.write_text(yaml.safe_dump({**yaml.safe_load(allowed), "acts": []}))
    try:
        forged = f"{JOINED}{own_run_id(ADMIN, run)}"
        begin(client, ADMIN, forged, {**STOP, "act": "resume"})
        assert ended(client, ADMIN, forged) == "failed"
        assert "does not allow resume" in errors(client, ADMIN, forged)["bank_act"]
        assert actions(workspace)[-2:] == ["stopped", "act_refused"]
    finally:
        policy.write_text(allowed)
    # Cleared, the run that acted does nothing a second time.
    clear = {"dry_run": False, "only_failed": False}
    client.http.post(f"/api/v2/dags/{ADMIN}/dagRuns/{run}/clear", json=clear).raise_for_status()
    until(lambda: states(client, ADMIN, run)["bank_act"] == "skipped", "the cleared task", 60)
    assert actions(workspace)[-1] == "act_refused"
    begin(client, ADMIN, "resumes", {**STOP, "act": "resume"})
    assert ended(client, ADMIN, "resumes") == "success"


def test_what_is_marked_as_done_publishes_nothing(client: Client, workspace: Path) -> None:
    forged = f"{JOINED}{'a' * 16}"
    begin(client, TRAIN, forged, {})
    assert ended(client, TRAIN, forged) == "failed"
    opening = "credit_open.open_run"
    assert "names a run of another Airflow" in errors(client, TRAIN, forged)[opening]
    mark(client, TRAIN, forged, opening)
    until(lambda: client.run(TRAIN, forged)["state"] == "failed", "the run's end", 120)
    assert not (workspace / "exchange" / NAME / ("a" * 16)).exists()


def test_a_check_that_is_marked_as_passed_has_not_passed(client: Client, workspace: Path) -> None:
    tighter = workspace / "credit" / "expectations.yaml"
    tighter.write_text(_TIGHTER)
    check, query = "credit_open.check_table", "credit_open.psi_query"
    try:
        run = client.trigger(TRAIN)
        assert ended(client, TRAIN, run) == "failed"
        assert states(client, TRAIN, run)[check] == "failed"
        mark(client, TRAIN, run, check)
        again = {"dry_run": False, "dag_run_id": run, "task_ids": [query], "only_failed": False}
        place = f"/api/v2/dags/{TRAIN}/clearTaskInstances"
        client.http.post(place, json=again).raise_for_status()
        until(lambda: states(client, TRAIN, run)[query] == "failed", "the cleared task", 120)
        assert "check of the table has not passed" in errors(client, TRAIN, run)[query]
        assert states(client, TRAIN, run)[check] == "success"
    finally:
        tighter.unlink()
    store = workspace / "exchange" / NAME / own_run_id(TRAIN, run)
    assert not list(store.glob("psi_query/*"))


def test_a_workers_token_breaks_no_page_and_moves_nobody(
    airflow: Standalone, client: Client, workspace: Path, worker: str
) -> None:
    before = client.trigger(SECOND)
    assert ended(client, SECOND, before) == "failed"
    first = {"dag_id": SECOND, "run_id": before, "task_id": "credit_open.open_run"}
    failure = {"problem": MALLORY, "remedy": MALLORY, "stage": "seal", "refused": True}
    wrong: list[Any] = [[1], "x" * 5000, {"problem": {"a": 1}}, {"stage": "x"}, None]
    for value in (*wrong, failure):
        xcoms = [{**first, "key": "failure", "value": value, "mapped_length": None}]
        run = client.trigger(worker, {"xcoms": xcoms})
        assert ended(client, worker, run) == "success"
        for page in (f"run?dag={SECOND}&run={quote(before)}", "status", "status.json"):
            reply = client.http.get(f"/opboost/{page}")
            assert reply.status_code == 200, (page, value)
            html = "html" in reply.headers["content-type"]
            assert not html or "<img src=x" not in reply.text, page
    assert "mallory" not in (client.run(SECOND, before)["note"] or "")


def test_a_workers_token_acts_in_nobodys_name(client: Client, workspace: Path, worker: str) -> None:
    """Airflow names the person who triggered the worker's DAG, and who triggered a cleared run."""
    policy = workspace / "bank" / "policy.yaml"
    allowed = policy.read_text()
    policy.write_text(yaml.safe_dump({**yaml.safe_load(allowed), "acts": []}))
    begin(client, ADMIN, "of-a-person", STOP)
    assert ended(client, ADMIN, "of-a-person") == "failed"
    policy.write_text(allowed)
    acted = actions(workspace)
    runs = [
        {"dag_id": ADMIN, "run_id": "of-a-worker", "conf": STOP},
        {"dag_id": ADMIN, "run_id": "of-a-person", "conf": STOP, "reset_dag_run": True},
    ]
    run = client.trigger(worker, {"runs": runs})
    assert ended(client, worker, run) == "success"
    assert ended(client, ADMIN, "of-a-worker") == "failed"
    assert "was not triggered by a person" in errors(client, ADMIN, "of-a-worker")["bank_act"]
    cleared = "the person's run, cleared by the worker"
    until(lambda: states(client, ADMIN, "of-a-person")["bank_act"] == "skipped", cleared, 60)
    assert actions(workspace) == acted


def test_text_of_files_and_forms_reads_no_connection_and_no_variable(
    airflow: Standalone, client: Client, workspace: Path
) -> None:
    connection = {"connection_id": "prod_db", "conn_type": "postgres", "password": PASSWORD}
    client.http.post("/api/v2/connections", json=connection).raise_for_status()
    variable = {"key": "canary", "value": SECRET}
    client.http.post("/api/v2/variables", json=variable).raise_for_status()
    data = yaml.safe_load((workspace / "federation.yaml").read_text())
    data |= {"name": "canaries", CANARY: CANARY}
    (workspace / "canaries.yaml").write_text(yaml.safe_dump(data))
    until(lambda: client.has_dag("canaries_train"), "the faulty file's DAG", 120)
    runs = {"canaries_train": client.trigger("canaries_train")}
    for form in ({"parameters": {CANARY: CANARY}}, {CANARY: CANARY}):
        runs[TRAIN] = client.trigger(TRAIN, form)
        assert ended(client, TRAIN, runs[TRAIN]) == "failed"
    assert ended(client, "canaries_train", runs["canaries_train"]) == "failed"
    assert (
        "conn.prod_db"
        in errors(client, "canaries_train", runs["canaries_train"])["federation_file"]
    )
    for dag, run in runs.items():
        for task in client.tasks(dag, run):
            assert not task["rendered_fields"], task["task_id"]
    logs = [path for path in airflow.home.rglob("*.log") if path.is_file()]
    text = "".join(path.read_text(errors="replace") for path in logs)
    with sqlite3.connect(next(airflow.home.glob("*.db"))) as database:
        for table in ("xcom", "rendered_task_instance_fields", "dag_run_note"):
            text += repr(database.execute(f"select * from {table}").fetchall())
    assert PASSWORD not in text and SECRET not in text
    (workspace / "canaries.yaml").unlink()


def test_who_sees_one_federation_reads_none_of_another(
    airflow: Standalone, client: Client, workspace: Path
) -> None:
    run = client.trigger(TRAIN)
    assert ended(client, TRAIN, run) == "success"
    forged = f"{JOINED}{run_id(TRAIN, run)}"
    begin(client, SECOND, forged, {})
    assert ended(client, SECOND, forged) == "failed"
    narrow = Client(airflow.url)
    assert narrow.login(NARROW, json.loads(airflow.passwords.read_text())[NARROW])
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        narrow.get(f"dags/{TRAIN}/dagRuns")
    for page in (
        f"run?dag={SECOND}&run={forged}",
        f"run?id={run_id(TRAIN, run)}",
        f"run?id={run_id(TRAIN, run)}&federation={NAME}",
        "ledger",
        "models",
        "exchange",
        "quality",
        "status",
        "status.json",
    ):
        reply = narrow.http.get(f"/opboost/{page}")
        assert reply.status_code == 200, page
        for hidden in (NAME, "income", "Charged: odds"):
            assert hidden not in reply.text, (page, hidden)
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        narrow.http.get(f"/opboost/run?dag={TRAIN}&run={run}").raise_for_status()
