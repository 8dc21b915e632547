"""A store by a connection of Airflow's: whose it is, what it may be, and what is told of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk.log import redact

from opboost_ops.config.key_sources import use_backend
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.store.store import open_store
from opboost_ops.orchestration.deployment.connections import StoreHook
from opboost_ops.orchestration.settings import use_airflow_secrets
from tests.federation import Workspace


@pytest.fixture(autouse=True)
def _airflow() -> Iterator[None]:
    use_airflow_secrets()
    yield
    use_backend(lambda: None)


KEY, SECRET, TOKEN = "key-in-a-connection", "secret-in-a-connection", "token-in-a-connection"


def connection(s3: str, server: str, **changed: Any) -> str:
    bucket, _, prefix = s3.removeprefix("s3://").partition("/")
    extra = {"endpoint": server, "region": "us-east-1", "session_token": TOKEN}
    fields = {"conn_type": "opboost_store", "host": bucket, "schema": prefix}
    return json.dumps({**fields, "login": KEY, "password": SECRET, "extra": extra, **changed})


@pytest.fixture
def alone(s3: str, s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store whose login is in a connection and nowhere else."""
    for name in ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION"):
        monkeypatch.delenv(f"AWS_{name}")
    monkeypatch.setenv("AIRFLOW_CONN_BANK_STORE", connection(s3, s3_server))
    return "airflow:bank_store"


def test_a_site_opens_its_store_by_a_connection(workspace: Workspace, alone: str) -> None:
    workspace.declare("bank/site.yaml", store=alone)
    site = workspace.site("bank")
    assert site.store == alone
    store = open_store(site.store)
    assert store.put_once("f/r/k/p", {"manifest.json": b"{}"})
    assert open_store(alone).list("f") == ["f/r/k/p"]
    # From now on this task's log shows none of it.
    told = str(redact(f"{KEY} {SECRET} {TOKEN}"))
    assert not [text for text in (KEY, SECRET, TOKEN) if text in told]
    assert SECRET not in repr(vars(store._bucket))  # type: ignore[attr-defined]


def test_the_button_reads_and_says_what_is_wrong_without_a_secret(
    alone: str, s3: str, s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = StoreHook("bank_store")
    assert hook.test_connection() == (
        True,
        "The bucket can be read and listed. Nothing was written.",
    )
    assert open_store(alone).list("") == []
    open_store(alone)._bucket.put(".throwaway", b"")  # type: ignore[attr-defined]
    assert "experiments" in hook.test_connection()[1]
    wrong: dict[str, dict[str, Any]] = {
        "bucket does not exist": {"host": "no-such-bucket-anywhere"},
        "cannot be reached": {"extra": {"endpoint": "http://127.0.0.1:9", "region": "x"}},
        "names no bucket": {"host": ""},
        "contains credentials": {"host": f"{KEY}:{SECRET}@bucket"},
        "invalid characters": {"schema": f"a/../{SECRET}"},
        "half a login": {"password": ""},
        "misconfigured": {"extra": {"endpoint": f"http//{SECRET}", "region": "x"}},
        "not of type": {"conn_type": "aws"},
    }
    for words, changed in wrong.items():
        monkeypatch.setenv("AIRFLOW_CONN_BANK_STORE", connection(s3, s3_server, **changed))
        well, told = hook.test_connection()
        assert not well and words in told, (words, told)
        with pytest.raises((ConfigError, ConnectionError)) as error:
            open_store(alone).list("")
        for text in (KEY, SECRET, TOKEN, s3_server, "127.0.0.1"):
            assert text not in f"{told} {error.value}"
    # A connection that cannot be read at all.
    monkeypatch.setenv("AIRFLOW_CONN_BANK_STORE", f"{{{SECRET}")
    well, told = hook.test_connection()
    assert not well and SECRET not in told


def test_a_connection_of_an_airflow_that_parties_share_is_not_taken(
    s3: str, s3_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk import Connection
    from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    from opboost_ops.orchestration.deployment import connections

    asked: list[str] = []
    theirs = Connection.from_json(connection(s3, s3_server), conn_id="bank_store")

    def answer(_: Any, conn_id: str, **__: Any) -> Connection:
        asked.append(conn_id)
        return theirs

    monkeypatch.setattr(ExecutionAPISecretsBackend, "get_connection", answer)
    backends = [ExecutionAPISecretsBackend(), EnvironmentVariablesBackend()]
    monkeypatch.setattr(connections, "ensure_secrets_backend_loaded", lambda: backends)
    # Every task of every party could have it.
    for parties in (None, "", "bank,shop", " , "):
        monkeypatch.setenv("OPBOOST_PARTIES", parties or "")
        if parties is None:
            monkeypatch.delenv("OPBOOST_PARTIES")
        with pytest.raises(ConfigError, match="have no connection bank_store"):
            open_store("airflow:bank_store")
    assert asked == []
    # An Airflow of one party alone is that party's.
    monkeypatch.setenv("OPBOOST_PARTIES", "bank")
    assert open_store("airflow:bank_store").list("") == []
    assert asked == ["bank_store"]


def test_without_airflow_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    use_backend(lambda: None)
    with pytest.raises(ConfigError, match=r"A store's login is in Airflow's .* not installed"):
        open_store("airflow:bank_store")
