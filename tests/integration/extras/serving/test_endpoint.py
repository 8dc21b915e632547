"""The endpoint: who may ask, what is refused, and that no answer shows what was sent."""

import asyncio
import json
import logging
import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from starlette.testclient import TestClient

from opboost_ops import api
from opboost_ops.config.loading import load_site
from opboost_ops.errors import ConfigError
from opboost_ops.extras.serving import app as endpoint
from opboost_ops.extras.serving.app import MOST_BYTES, MOST_ROWS, make_app
from tests.commands import printed
from tests.federation import FIRST_RUN, Workspace
from tests.integration.pipeline.scoring_data import dataset

TOKEN = "0123456789abcdef" * 4
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation whose label holder holds all columns of its new rows."""
    made = Workspace.write(
        tmp_path_factory.mktemp("endpoint") / "federation",
        dataset("binary"),
        training={"trees": 3, "depth": 2},
        scoring={"mode": "local"},
    )
    with made.known():
        made.all()
    return made


@pytest.fixture(scope="module")
def client(workspace: Workspace) -> Iterator[TestClient]:
    scorer = api.Scorer(workspace.folder / "a", workspace.folder)
    with TestClient(make_app(scorer, TOKEN)) as found:
        yield found


@pytest.fixture(scope="module")
def rows(workspace: Workspace) -> list[dict[str, Any]]:
    return pl.read_parquet(workspace.folder / "a" / "tables" / "score.parquet").to_dicts()


def test_one_row_and_many(client: TestClient, rows: list[dict[str, Any]]) -> None:
    one = client.post("/score", json={"row": rows[0], "reasons": 2}, headers=HEADERS).json()
    many = client.post("/score", json={"rows": rows}, headers=HEADERS).json()["scores"]
    assert len(many) == len(rows) and {found["version"] for found in many} == {FIRST_RUN}
    assert one["score"] == many[0]["score"] and len(one["reasons"]["named"]) == 2
    assert client.get("/version", headers=HEADERS).json() == {
        "version": FIRST_RUN,
        "mode": "local",
    }
    text = client.get("/metrics", headers=HEADERS).text
    assert f'opboost_serve_rows_total{{outcome="scored"}} {len(rows) + 1}' in text.splitlines()
    assert client.get("/health").json() == {"status": "ready"}


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": TOKEN}, {"Authorization": f"Bearer {TOKEN[:-1]}"},
     {"Authorization": "Bearer "}, {"Authorization": f"Basic {TOKEN}"},
     {"Authorization": "Bearer \u00e9"}],
)  # fmt: skip
def test_nothing_but_health_without_the_token(
    client: TestClient, rows: list[dict[str, Any]], headers: dict[str, str]
) -> None:
    sent = {name: value.encode() for name, value in headers.items()}
    for method, path in (("POST", "/score"), ("GET", "/version"), ("GET", "/metrics")):
        answer = client.request(method, path, headers=sent)  # type: ignore[arg-type]
        assert answer.status_code == 401 and FIRST_RUN not in answer.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"row": {"x": NaN}}', 400),
        (b'{"row": {"id": "canary-1", "id": "canary-2"}}', 400),
        (b'{"row": {"id": "\\ud800canary", "x": 1.0, "kind": "one"}}', 422),
        (b'{"row": [1]}', 400),
        (b'{"row": {}, "rows": []}', 400),
        (b'{"row": {}, "reasons": true}', 400),
        (b'{"row": {}, "reasons": 51}', 400),
        (b'{"row": {}, "other": 1}', 400),
        (b'{"row": {"id": "canary-4711", "kind": "canary-4711", "x": "canary-4711"}}', 422),
        (b'{"rows": [' + b"{}," * MOST_ROWS + b"{}]}", 413),
        (b" " * (MOST_BYTES + 1), 413),
    ],
)
def test_what_is_refused_shows_nothing_of_it(
    client: TestClient, caplog: pytest.LogCaptureFixture, body: bytes, status: int
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = client.post("/score", content=body, headers=HEADERS)
    assert answer.status_code == status and answer.json().keys() == {"error", "remedy"}
    assert "canary" not in answer.text + caplog.text


@pytest.mark.parametrize("piece", [b"{}", b"[]", b'{"a[":"{\\"["}', b"[["])
def test_millions_of_pieces_are_refused_before_they_are_made(
    client: TestClient, piece: bytes
) -> None:
    """Each made an object, and all other requests waited for seconds."""
    body = b'{"rows": [' + b",".join([piece] * ((MOST_BYTES - 100) // (len(piece) + 1))) + b"]}"
    tracemalloc.start()
    try:
        answer = client.post("/score", content=body, headers=HEADERS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status_code in (400, 413)
    assert peak < 6 * MOST_BYTES


def test_brackets_in_a_text_are_no_rows(client: TestClient, rows: list[dict[str, Any]]) -> None:
    row = {**rows[0], "note": '{["\\' * MOST_ROWS}
    answer = client.post("/score", json={"row": row}, headers=HEADERS)
    assert answer.json()["score"] == client.post(
        "/score", json={"row": rows[0]}, headers=HEADERS
    ).json()["score"]  # fmt: skip


def test_others_are_answered_while_a_large_body_is(
    workspace: Workspace, rows: list[dict[str, Any]]
) -> None:
    """Also where it holds a single row."""
    answered = threading.Event()
    waited = []

    class Slow(api.Scorer):
        def score_rows(self, rows: Any, reasons: int = 0) -> Any:
            waited.append(answered.wait(20))
            return super().score_rows(rows, reasons)

    app = make_app(Slow(workspace.folder / "a", workspace.folder), TOKEN)

    async def both() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            large = {"row": {**rows[0], "note": "x" * 10_000}}
            scoring = asyncio.create_task(client.post("/score", json=large, headers=HEADERS))
            while not scoring.done():
                await asyncio.sleep(0.01)
                await client.get("/health")
                answered.set()
            return (await scoring).status_code

    assert asyncio.run(both()) == 200 and waited == [True]


def test_a_client_that_goes_away_is_no_failure(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """It was logged and counted as a failure of the server."""
    app = make_app(api.Scorer(workspace.folder / "a", workspace.folder), TOKEN)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_: dict[str, Any]) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/score", "query_string": b"",
             "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}  # fmt: skip
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    assert not caplog.records
    with TestClient(app) as client:
        assert 'status="5' not in client.get("/metrics", headers=HEADERS).text


def test_two_tokens_are_none(client: TestClient) -> None:
    """A proxy may have read the other one."""
    both = [("Authorization", HEADERS["Authorization"]), ("Authorization", "Bearer other")]
    assert client.get("/version", headers=both).status_code == 401


@pytest.mark.parametrize("path", ["/score/", "/score%2f", "/health/"])
def test_no_request_is_sent_on_to_the_host_that_it_names(client: TestClient, path: str) -> None:
    """A redirect took rows and token to that host, and behind a proxy out of TLS."""
    headers = {**HEADERS, "Host": "mallory.example", "X-Forwarded-Host": "mallory.example"}
    answer = client.post(path, json={"row": {}}, headers=headers, follow_redirects=False)
    assert answer.status_code == 404 and "location" not in answer.headers


@pytest.mark.parametrize("path", ["/health", "/score"])
def test_a_request_with_two_lengths_ends_its_connection(client: TestClient, path: str) -> None:
    """What follows it is nobody's request."""
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    answer = client.request("POST", path, content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert answer.headers["connection"] == "close"


def test_a_body_that_does_not_arrive_ends(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "BODY_SECONDS", 0.05)
    scorer = api.Scorer(workspace.folder / "a", workspace.folder)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/score", "query_string": b"",
             "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}  # fmt: skip
    asyncio.run(make_app(scorer, TOKEN)(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408


def test_without_a_champion_it_is_not_ready(
    workspace: Workspace, client: TestClient, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    scorer = api.Scorer(workspace.folder / "a", workspace.folder)
    champion = next((workspace.folder / "a" / "models").rglob("champion.json"))
    os.rename(champion, tmp_path / "champion.json")
    try:
        scorer.refresh()
        with TestClient(make_app(scorer, TOKEN)) as unready:
            assert unready.get("/health").status_code == 503
            answer = unready.post("/score", json={"row": rows[0]}, headers=HEADERS)
            assert answer.status_code == 503 and "no champion" in answer.json()["error"]
    finally:
        os.rename(tmp_path / "champion.json", champion)
    scorer.refresh()
    assert scorer.score(rows[0]).version == FIRST_RUN


def test_the_token_is_a_secret_of_some_length(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.folder / "a"
    said = printed("serve", folder, workspace.file, fails=True)
    assert "keys/serve.token" in said
    file = folder / "keys" / "serve.token"
    file.write_text(TOKEN)
    for mode, text, fault in ((0o644, TOKEN, "readable by others"), (0o600, "short", "shorter")):
        file.chmod(mode)
        file.write_text(text)
        with pytest.raises(ConfigError, match=fault) as refused:
            load_site(folder / "site.yaml").serving_token()
        assert text not in str(refused.value) or text == "short"
    file.write_text(f"{TOKEN}\n")
    assert load_site(folder / "site.yaml").serving_token() == TOKEN
    workspace.edit_yaml("a/site.yaml", lambda site: site.update(serve_token="env:SERVE_TOKEN"))
    monkeypatch.setenv("SERVE_TOKEN", json.dumps(TOKEN))
    assert load_site(folder / "site.yaml").serving_token() == json.dumps(TOKEN)
