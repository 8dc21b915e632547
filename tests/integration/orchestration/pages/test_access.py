"""Nothing is shown without a login, to anyone who may not see the DAG, or outside its own page."""

import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from opboost_ops.orchestration.pages.app import make_app
from tests.federation import FIRST_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader, allow

PAGES = ("ledger", "models", "exchange", "quality")
EXAMPLES = {
    "party": "credit",
    "federation": "credit_scoring",
    "version": FIRST_RUN,
    "run": FIRST_RUN,
    "boundary": "model",
    "file": "model.txt",
    "name": "runbook",
}
ROUTES = [re.sub(r"{(\w+)}", lambda m: EXAMPLES[m[1]], r.path) for r in make_app().routes]  # type: ignore[attr-defined]


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_login_there_is_nothing(
    application: FastAPI, untouched: Workspace, route: str
) -> None:
    for headers in ({}, {"Authorization": "Bearer forged"}):
        for query in ("", "?csv=credit.lines", f"?id={FIRST_RUN}"):
            reply = TestClient(application).get(
                f"/opboost{route}{query}", headers=headers, follow_redirects=False
            )
            assert reply.status_code == (403 if headers else 401)
            assert FIRST_RUN not in reply.text
            assert "credit" not in reply.text


@pytest.mark.parametrize("route", ROUTES)
def test_every_answer_is_private_and_runs_nothing_of_others(
    reader: Reader, untouched: Workspace, route: str
) -> None:
    reply = reader.get(f"/opboost{route}", params={"id": FIRST_RUN} if route == "/run" else {})
    assert reply.status_code == 200
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[-1].split(";")[0] or (
        "script-src" not in policy
    )
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", reply.text)
    assert not re.search(r"<script(?! src=\"/opboost/theme.js\")|\son\w+=|javascript:", reply.text)


@pytest.mark.parametrize(
    "path",
    [
        "quality/credit/credit_scoring/{run}/..%2f..%2fevaluation",
        "quality/credit/credit_scoring/{run}/../model",
        "quality/credit/credit_scoring/..%2f..%2f..%2fkeys/model",
        "quality/credit/..%2fcredit/{run}/model",
        "quality/..%2fcredit/credit_scoring/{run}/model",
        "quality/stranger/credit_scoring/{run}/model",
        "quality/credit/credit_scoring/{run}/nothing",
        "models/credit/credit_scoring/{run}/..%2f..%2f..%2fkeys%2fnoise.secret",
        "models/credit/credit_scoring/{run}/federation.json",
        "models/credit/credit_scoring/{run}/..%2fchampion.json",
        "models/credit/..%2fkeys/{run}/model.txt",
        "models/bank/credit_scoring/{run}",
        "models/credit/credit_scoring/0000000000000bad",
        "models/credit/credit_scoring/{run}/beside/0000000000000bad",
        "ledger?run=../..",
        "ledger?federation=../..",
        "ledger?party=..%2fcredit",
        "ledger?csv=credit.nothing",
        "ledger?since=2026-13",
        "ledger?until=yesterday",
        "exchange?page=0",
        "run",
        "no_such_page",
        "static/../app.py",
    ],
)
def test_nothing_but_what_is_meant_can_be_fetched(
    reader: Reader, untouched: Workspace, path: str
) -> None:
    reader.page(path.format(run=FIRST_RUN), status=404)


def test_a_reader_sees_only_federations_whose_dag_he_may_see(
    reader: Reader, untouched: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    allow(monkeypatch, lambda dag: bool(asked.append(dag)))
    for page in (*PAGES, "ledger?since=2026-01-01", f"run?id={FIRST_RUN}"):
        text = reader.page(page)
        assert "credit_scoring" not in text
        assert "income" not in text
    for page in (
        f"models/credit/credit_scoring/{FIRST_RUN}",
        f"models/credit/credit_scoring/{FIRST_RUN}/model.txt",
        f"models/credit/credit_scoring/{FIRST_RUN}/beside/{FIRST_RUN}",
        f"quality/credit/credit_scoring/{FIRST_RUN}/model",
        f"quality/credit/credit_scoring/{FIRST_RUN}/model.html",
        "run?dag=credit_scoring_train&run=manual",
    ):
        reader.page(page, status=403)
    assert set(asked) == {"credit_scoring_train"}


def test_a_deployment_shows_the_parties_it_is_told_and_no_others(
    reader: Reader, untouched: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for party in ("credit", "shop"):
        monkeypatch.delenv(f"OPBOOST_SITE_{party.upper()}")
    for page in ("ledger", "exchange", "quality"):
        text = reader.page(page)
        assert '<section id="bank">' in text
        assert '<section id="credit">' not in text
        assert "shop" not in text, "what others say to each other lies in the same store"
    assert "Models are kept by the label holder" in reader.page("models")
    reader.page(f"models/credit/credit_scoring/{FIRST_RUN}", status=404)
    reader.page(f"quality/credit/credit_scoring/{FIRST_RUN}/model", status=404)


def test_without_any_site_a_page_says_what_to_set(
    reader: Reader, untouched: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in untouched.environment():
        monkeypatch.delenv(name)
    for page in (*PAGES, f"run?id={FIRST_RUN}"):
        assert "Set OPBOOST_SITE_&lt;PARTY&gt;" in reader.page(page)


def test_looking_makes_nothing(reader: Reader, shown: Workspace) -> None:
    (shown.folder / "bank" / "ledger.sqlite").unlink()
    before = set(shown.files())
    for page in (*PAGES, f"run?id={FIRST_RUN}"):
        reader.page(page)
    assert set(shown.files()) == before
    assert "Nothing was released yet" in reader.page("ledger?party=bank")
