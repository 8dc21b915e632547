"""The status page and its JSON say how each federation stands."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import update

from opboost_ops.exchange.manifest import run_id
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.orchestration.pages import state, status
from opboost_ops.orchestration.pages.access import Query
from opboost_ops.pipeline.party.admin_actions import ActionRequest, do, from_airflow
from opboost_ops.pipeline.party.rollback import check
from opboost_ops.reports.display.blocks import tables
from opboost_ops.reports.listing import decisions_table, versions_table
from opboost_ops.reports.versions import Models
from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.airflow_runs import (
    NEXT,
    TRAIN,
    known_dags,
    write_dag,
    write_run,
)
from tests.integration.orchestration.pages.conftest import Reader, allow
from tests.integration.orchestration.pages.reading import plain

TASK = "bank_release.desensitize"


@pytest.fixture
def scheduled(application: object) -> Iterator[None]:
    """A DAG that Airflow will run next on a day far ahead."""
    with known_dags(TRAIN, due=NEXT):
        yield


def test_success_next_run_champion_and_budget(
    reader: Reader, shown: Workspace, scheduled: None
) -> None:
    ledger = reader.standing()["parties"]["bank"]["ledger"]
    budget = 3.5 * next(a for a in ledger if a["feature"] == "income")["loss"]
    shown.edit_yaml("bank/policy.yaml", lambda p: p["features"]["income"].update(budget=budget))
    write_run("good", "success", ago=timedelta(days=2))
    said = {"problem": "income is over.", "remedy": "Ask.", "refused": True}
    write_run("bad", "failed", {TASK: "failed"}, {TASK: said})
    one = reader.standing()
    assert one["federation"] == "credit_scoring"
    assert datetime.fromisoformat(one["next_run"]) == NEXT
    assert (one["last_success"]["name"], one["last_run"]["name"]) == ("good", "bad")
    assert one["last_run"]["failures"] == ["bank: desensitize: income is over."]
    assert one["champion"] == FIRST_RUN
    metrics = json.loads((shown.models / FIRST_RUN / "evaluation.json").read_text())["metrics"]
    assert one["versions"][0]["metrics"] == metrics
    bank = one["parties"]["bank"]
    (income,) = [a for a in bank["ledger"] if a["feature"] == "income"]
    assert income["budget"] == budget
    assert bank["more"] == 2
    text = plain(reader.page("status"))
    assert "The last run of training failed" in text
    assert "Last success 2 d 0 h ago" in text
    assert "bank: desensitize: income is over." in text
    assert "Next run 2031-05-06 03:00 UTC" in text
    assert "Releases left 2 bank: income:" in text
    assert reader.get("/opboost/").url.path == "/opboost/status"


def test_what_ledger_check_finds_is_on_status_until_it_finds_nothing(
    reader: Reader, shown: Workspace, scheduled: None
) -> None:
    site = shown.site("bank")
    state = min(site.pins.glob("*.pins"))
    state.rename(shown.folder / "lost")
    assert [gap.lacks for gap in check(site)] == ["pins"]
    text = plain(reader.page("status"))
    assert "The state of bank lacked 1 thing when it was compared with its store" in text
    (shown.folder / "lost").rename(state)
    assert check(site) == []
    assert "lacked" not in plain(reader.page("status"))


def test_a_program_asks_with_a_token(
    application: FastAPI, token: str, untouched: Workspace
) -> None:
    client = TestClient(application)
    for page in ("status.json", "status.schema.json"):
        assert client.get(f"/opboost/{page}").status_code == 401
        reply = client.get(f"/opboost/{page}", headers={"Authorization": f"Bearer {token}"})
        assert reply.status_code == 200
        assert reply.json()


@pytest.mark.parametrize(
    ("state", "words"),
    [("queued", "queued"), ("up_for_reschedule", "waits, and checks again by itself")],
)
def test_what_is_stuck_and_for_how_long(
    reader: Reader, untouched: Workspace, scheduled: None, state: str, words: str
) -> None:
    write_run("now", "running", {TASK: state}, ago=timedelta(hours=3))
    one = reader.standing()
    (seconds,) = one["last_run"]["waiting"].values()
    assert 3 * 3600 <= seconds < 4 * 3600
    page = reader.page("status")
    assert 'class="note warn"' in page
    assert f"bank: desensitize ({words}), 3 h" in plain(page)


def test_a_party_that_cannot_be_read_is_said_and_spares_the_rest(
    reader: Reader, shown: Workspace, scheduled: None
) -> None:
    (shown.folder / "bank" / "policy.yaml").write_text("{]")
    parties = reader.standing()["parties"]
    assert "policy.yaml" in parties["bank"]["fault"]
    assert not parties["shop"]["fault"]
    assert "policy.yaml" in plain(reader.page("status"))


def test_a_party_that_has_stopped_is_said_with_what_ends_it(
    reader: Reader, shown: Workspace, scheduled: None
) -> None:
    site = shown.site("bank")
    do(site, "credit_scoring", ActionRequest("stop", "Alice Meyer left", "ann"))
    one = reader.standing()
    stopped = {name: party["stopped"] for name, party in one["parties"].items()}
    assert datetime.fromisoformat(stopped.pop("bank")).tzinfo
    assert set(stopped.values()) == {None}
    page = reader.page("status")
    assert "bank has stopped taking part in credit_scoring: by its own people" in plain(page)
    assert "opboost resume SITE credit_scoring" in plain(page)
    assert "Alice" not in json.dumps(one) + page and "ann" not in plain(page).split()
    # Only the party's own statement has the reason.
    assert "Alice" in reader.page("ledger?since=2026-01-01&party=bank")


def test_who_stopped_through_airflow_and_the_button_that_resumes(
    reader: Reader, shown: Workspace, scheduled: None
) -> None:
    form = {"act": "stop", "reason": "privacy"}
    from_airflow("bank", "credit_scoring", "a" * 16, "ann", form)
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == TRAIN).values(is_paused=True))
    one = reader.standing()
    bank = one["parties"]["bank"]
    assert (bank["stopped_by"], bank["resumes_at_home"]) == ("ann", False)
    assert (one["paused"], one["next_run"]) == ([TRAIN], None)
    page = reader.page("status")
    assert "by ann through Airflow" in plain(page) and f"paused in Airflow: {TRAIN}" in plain(page)
    assert 'href="/dags/credit_scoring_admin" data-airflow' in page
    from_airflow("bank", "credit_scoring", "b" * 16, "ann", {**form, "act": "resume"})
    assert "has stopped taking part" not in plain(reader.page("status"))


def test_a_version_says_how_it_is_put_into_use(reader: Reader, shown: Workspace) -> None:
    registry = Registry(shown.folder / "credit" / "models", "credit_scoring")
    files = {n: c for n, c in registry.files(FIRST_RUN).items() if n != "sha256.json"}
    registry.register("a" * 16, files)
    registry.decide("a" * 16, False, "worse")
    path = f"models/credit/credit_scoring/{'a' * 16}"
    text = reader.page(path)
    assert f"what promote, version {'a' * 16}" in text
    assert 'href="/dags/credit_scoring_admin" data-airflow' in text
    assert 'href="/dags/credit_scoring_score" data-airflow' in text
    shown.edit_yaml("credit/policy.yaml", lambda policy: policy.update(acts=[]))
    text = reader.page(path)
    assert "credit_scoring_admin" not in text
    assert "opboost models promote SITE" in plain(text)
    champion = reader.page(f"models/credit/credit_scoring/{FIRST_RUN}")
    assert "It is the champion" in champion
    registry.promote("a" * 16, "by hand")
    shown.edit_yaml("credit/policy.yaml", lambda policy: policy.update(acts=["roll_back"]))
    assert "what roll_back" in reader.page(f"models/credit/credit_scoring/{FIRST_RUN}")


def test_a_federation_in_a_dag_of_ones_own_is_found_by_its_plan(
    reader: Reader, shown: Workspace, scheduled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = NEXT - timedelta(days=1)
    write_dag("nightly", "opboost", "train", "credit_scoring", "bank", "mine", due=due)
    # Another federation's own DAG, one of whose parties is called as this federation is.
    write_dag("other_train", "opboost", "train", "other", "credit_scoring")
    write_run("night", "failed", {}, dag="other_train", ago=timedelta(minutes=1))
    write_run("former", "success", ago=timedelta(days=2))
    said = {"problem": "income is over.", "remedy": "Ask.", "refused": True}
    own, ours = "mine_x.refresh_the_vault", f"credit.{TASK}"
    write_run(
        "night", "failed", {own: "failed", ours: "failed"}, {ours: said, own: said}, dag="nightly"
    )
    one = reader.standing()
    last = one["last_run"]
    assert (last["dag"], last["name"]) == ("nightly", "night")
    assert last["failures"] == ["bank: desensitize: income is over."]
    assert datetime.fromisoformat(one["next_run"]) == due
    assert one["last_success"]["name"] == "former"
    status = reader.page("status")
    assert "bank: desensitize: income is over." in status
    assert "refresh_the_vault" not in status
    # By the plan's own id, which is all that ledger, exchange and models know of a run.
    assert last["run"] == run_id("nightly", "night")
    page = reader.page(f"run?id={last['run']}")
    assert "income is over." in page
    assert "/dags/nightly/runs/night" in page

    # Anyone who may not see that DAG learns nothing of it.
    allow(monkeypatch, lambda dag: dag != "nightly")
    one = reader.standing()
    assert one["last_run"]["name"] == "former"
    assert datetime.fromisoformat(one["next_run"]) == NEXT
    for path in ("status", f"run?id={last['run']}"):
        assert "income is over" not in reader.page(path)
        assert "nightly" not in reader.page(path)
    reader.page("run?dag=nightly&run=night", status=403)


def test_each_federation_has_tables_of_its_own(untouched: Workspace) -> None:
    """Names that begin alike, up to their last letter, are names of different downloads."""
    names = [f"northern_branches_with_all_their_households_202{year}" for year in (5, 6)]
    (one,) = state.state(Query(lambda _: True)).federations
    found = status.blocks([one.model_copy(update={"federation": name}) for name in names])
    models = [Models(untouched.models.parent, name) for name in names]
    found += [versions_table(of, []) for of in models]
    found += [decisions_table(of) for of in models]
    parts = [table.name for table in tables(found)]
    assert len(parts) == len(set(parts)) == 6
