"""The pages behind Airflow's own login, over a finished run and one that a check has stopped."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from opboost_ops.errors import OpBoostError
from tests.federation import SECOND_RUN, Workspace
from tests.integration.orchestration.pages.long_history import lengthen
from tests.integration.orchestration.pages.served import browser, histories, look, url

__all__ = ["browser", "histories", "look", "url"]

SECRET = "a secret of these tests, long enough for the signature of a token: " + "0" * 32


@pytest.fixture(scope="session")
def application() -> Iterator[FastAPI]:
    """The plugin's application, mounted as the API server does; its logins are real."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", SECRET)
        from tests.integration.orchestration.pages.mounted import mounted

        yield mounted()


@pytest.fixture(scope="session")
def token(application: FastAPI) -> str:
    """What the least of Airflow's users is given at login."""
    from tests.integration.orchestration.pages.mounted import reader_token

    return reader_token()


@pytest.fixture(scope="session")
def stopped_once(trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A second run, where people with an income far outside its bounds join the bank."""
    copy = trained_once.copy(tmp_path_factory.mktemp("stopped") / "federation", SECOND_RUN)
    copy.let_join("bank", pl.col("income") * 1000)
    with copy.known():
        step, error = copy.first_failure()
    assert (step, isinstance(error, OpBoostError)) == ("bank.check_table", True)
    return copy


@pytest.fixture
def untouched(stopped_once: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Itself, with every party's site known. Tests look at it and never change it."""
    stopped_once.known_to(monkeypatch)
    return stopped_once


@pytest.fixture(scope="session")
def twelve_once(trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A run in each night from 2026-01-06 to 2026-01-17."""
    copy = trained_once.copy(tmp_path_factory.mktemp("twelve") / "federation", SECOND_RUN)
    lengthen(copy, 12)
    return copy


@pytest.fixture
def nights(twelve_once: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Itself, with every party's site known. Tests look at it and never change it."""
    twelve_once.known_to(monkeypatch)
    return twelve_once


@pytest.fixture
def shown(stopped_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A copy of it, with every party's site known."""
    return stopped_once.copy(tmp_path / "federation", SECOND_RUN, monkeypatch)


class Reader(TestClient):
    """A browser that is logged in; addresses are those below the pages' own."""

    def page(self, path: str, status: int = 200) -> str:
        """The text of a page, which has the status that is expected of it."""
        reply = self.get(f"/opboost/{path}")
        assert reply.status_code == status, reply.text
        return reply.text

    def standing(self) -> Any:
        """The one federation of `status.json`, which is of its schema; its parties by name."""
        found = self.get("/opboost/status.json").json()
        jsonschema.validate(found, self.get("/opboost/status.schema.json").json())
        (one,) = found["federations"]
        return {**one, "parties": {party["party"]: party for party in one["parties"]}}


def allow(patch: pytest.MonkeyPatch, may: Callable[[str], bool]) -> None:
    """Let Airflow show the runs of some DAGs alone."""
    from airflow.api_fastapi.app import get_auth_manager

    patch.setattr(get_auth_manager(), "is_authorized_dag", lambda **what: may(what["details"].id))


@pytest.fixture
def reader(application: FastAPI, token: str) -> Reader:
    return Reader(application, cookies={"_token": token})
