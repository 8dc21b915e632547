"""Fixtures: one federation, before and after its first run, copied afresh for every test."""

import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.federation import FIRST_RUN, SECOND_RUN, Workspace

# Airflow reads its environment when it is first imported: tests get a home of their own.
_AIRFLOW_HOME = tempfile.TemporaryDirectory(prefix="opboost-airflow-", ignore_cleanup_errors=True)
os.environ["AIRFLOW_HOME"] = _AIRFLOW_HOME.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A slow test never skips: who asked for it is told what is missing."""
    report = yield
    if report.skipped and item.get_closest_marker("slow") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} cannot run here: {report.longrepr[-1]}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: begun last, they would keep one worker busy while others idle."""
    items.sort(key=lambda item: "leakage" not in item.path.parts)


@pytest.fixture(scope="session")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation before its first run. Tests copy it and never change it."""
    return Workspace.write(tmp_path_factory.mktemp("written") / "federation")


@pytest.fixture
def fresh(written_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A copy of it, about to begin its first run, with every party's site known."""
    return written_once.copy(tmp_path / "federation", FIRST_RUN, monkeypatch)


@pytest.fixture(scope="session")
def trained_once(written_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation after one good run. Tests copy it and never change it."""
    workspace = written_once.copy(tmp_path_factory.mktemp("trained") / "federation", FIRST_RUN)
    workspace.all()
    return workspace


@pytest.fixture
def workspace(
    trained_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of it, about to begin its second run, with every party's site known."""
    return trained_once.copy(tmp_path / "federation", SECOND_RUN, monkeypatch)


@pytest.fixture(scope="session")
def asked_once(trained_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Its second run, as far as the split requests. Tests copy it and never change it."""
    copy = trained_once.copy(tmp_path_factory.mktemp("asked") / "federation", SECOND_RUN)
    copy.until("answer_splits")
    return copy


@pytest.fixture
def asked(asked_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A copy of that, where every feature holder has a split request to answer."""
    return asked_once.copy(tmp_path / "federation", SECOND_RUN, monkeypatch)
