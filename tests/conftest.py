"""Fixtures: a federation that has one champion already, copied afresh for every test."""

import os
from pathlib import Path

import pytest

from tests.federation import SECOND_RUN, Workspace


@pytest.fixture(autouse=True)
def _no_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPBOOST_SITE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation after one good run. Tests copy it and never change it."""
    workspace = Workspace.write(tmp_path_factory.mktemp("trained") / "federation")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in workspace.environment().items():
            patch.setenv(name, value)
        workspace.all()
    return workspace


@pytest.fixture
def workspace(
    trained_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of it, about to begin its second run, with every party's site known."""
    copy = trained_once.copy(tmp_path / "federation", SECOND_RUN)
    for name, value in copy.environment().items():
        monkeypatch.setenv(name, value)
    return copy
