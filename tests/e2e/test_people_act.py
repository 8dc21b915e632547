"""People act through Airflow: in one party's task, written into its state, with no word outside."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.party_state import open_state
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from tests.browser import shot
from tests.federation import Workspace
from tests.waiting import ended, errors, states, until

pytestmark = pytest.mark.slow

NAME = "credit_scoring"
ACTS, TRAIN = f"{NAME}_admin", f"{NAME}_train"
FIRST, SECOND = "c" * 16, "d" * 16
WORDS = "Alice Meyer has asked for it"


@pytest.fixture(scope="module")
def registry(workspace: Path, trained_once: Workspace) -> Registry:
    """Two versions more at the label holder, the first of which was champion and is not now."""
    made = Registry(trained_once.folder / "credit" / "models", NAME)
    (version,) = made.versions()
    files = {n: c for n, c in made.files(version).items() if n != "sha256.json"}
    registry = Registry(workspace / "credit" / "models", NAME)
    for name in (FIRST, SECOND):
        registry.register(name, files)
        registry.decide(name, True, "made for this test")
    return registry


def acted(client: Client, form: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """How a run ended that a form has begun, and how its tasks did."""
    run = client.trigger(ACTS, form)
    state = ended(client, ACTS, run, 90)
    return run, states(client, ACTS, run) | {"": state}


def entries(workspace: Path, party: str) -> list[Entry]:
    with open_state(load_site(workspace / party / "site.yaml")) as state:
        return state.audit.of("promoted", "rolled_back", "stopped", "act_refused")


def test_a_version_is_put_into_use_by_its_partys_task_alone(
    airflow: Standalone, client: Client, workspace: Path, registry: Registry
) -> None:
    form = {"party": "credit", "act": "roll_back", "version": FIRST, "reason": "worse in use"}
    before = entries(workspace, "bank")
    run, found = acted(client, form)
    skipped = {"shop_act": "skipped", "bank_act": "skipped"}
    assert found == {"": "success", "credit_act": "success", **skipped}, client.error(
        ACTS, run, "credit_act", 1
    )
    # The scheduler has skipped them: no worker of theirs was needed.
    by = {task["task_id"]: task for task in client.tasks(ACTS, run)}
    assert by["bank_act"]["pid"] is None and by["credit_act"]["pid"]
    assert registry.champion() == FIRST
    done = entries(workspace, "credit")[-1]
    user = next(iter(json.loads(airflow.passwords.read_text())))
    assert (done.action, done.party) == ("rolled_back", "credit")
    assert done.detail == f"{user} through Airflow: version {FIRST}: worse in use"
    summary = client.summary(ACTS, run, "credit_act")
    assert "worse" not in json.dumps(summary) and summary["version"] == FIRST
    assert entries(workspace, "bank") == before


def test_what_there_is_not_is_refused_and_own_words_never_get_in(
    airflow: Standalone, client: Client, workspace: Path, registry: Registry
) -> None:
    before = registry.champion()
    form = {"party": "credit", "act": "promote", "version": "e" * 16, "reason": "a trial"}
    run, found = acted(client, form)
    assert found[""] == found["credit_act"] == "failed"
    told = errors(client, ACTS, run)["credit_act"]
    assert told.startswith(f"credit has no model version {'e' * 16}")
    assert entries(workspace, "credit")[-1].action == "act_refused"
    run, found = acted(client, {**form, "party": "bank", "version": FIRST})
    assert found["bank_act"] == "failed"
    for wrong in ({"reason": WORDS}, {"act": "forget"}, {"version": "../../keys"}):
        with pytest.raises(httpx.HTTPStatusError, match="400"):
            client.trigger(ACTS, {**form, **wrong})
    with pytest.raises(httpx.HTTPStatusError, match="400"):
        client.trigger(ACTS, {"party": "credit", "act": "promote", "version": FIRST})
    assert registry.champion() == before


def test_a_stop_ends_the_run_and_a_resume_ends_the_stop(client: Client, workspace: Path) -> None:
    training = client.trigger(TRAIN, {})
    until(lambda: "success" in states(client, TRAIN, training).values(), "a task's end", 90)
    form = {"party": "bank", "act": "stop", "reason": "privacy"}
    _, found = acted(client, form)
    assert found == {"": "success", "bank_act": "success"} | dict.fromkeys(
        ("credit_act", "shop_act"), "skipped"
    )
    assert entries(workspace, "bank")[-1].action == "stopped"
    page = client.http.get("/opboost/status.json").json()["federations"]
    parties = {p["party"]: p["stopped"] for f in page for p in f["parties"]}
    assert parties["bank"] and not parties["shop"]
    # The party's own tasks refuse; Airflow's schedule is nobody's but its people's.
    assert ended(client, TRAIN, training) == "failed"
    note = client.run(TRAIN, training)["note"]
    assert "bank has stopped" in note or "bank refused run" in note
    for what in ("train", "score", "tables"):
        assert not client.get(f"dags/{NAME}_{what}")["is_paused"]
    acted(client, {**form, "act": "resume"})
    assert ended(client, TRAIN, client.trigger(TRAIN, {}), 180) == "success"


def test_from_a_version_to_the_form(page: Any, airflow: Standalone, registry: Registry) -> None:
    page.goto(f"{airflow.url}/opboost/models/credit/{NAME}/{SECOND}")
    page.get_by_role("link", name="Put it into use").click()
    page.wait_for_url(f"**/dags/{ACTS}**")
    page.get_by_test_id("trigger-dag-button").first.click()
    page.locator("[id=element_party]").wait_for()
    text = shot(page, "acts-form")
    for field in ("Party", "What", "Model version", "Why"):
        assert field in text
    assert not page.foreign


def test_no_own_word_lies_in_airflows_database(airflow: Standalone, client: Client) -> None:
    """Those that were typed into the form were refused before they were kept, but for its log."""
    found = []
    with sqlite3.connect(next(airflow.home.glob("*.db"))) as database:
        for (table,) in database.execute("select name from sqlite_master where type = 'table'"):
            if table != "log":
                rows = database.execute(f'select * from "{table}"')
                found += [table for row in rows if "Alice" in repr(row)]
    assert found == []
