"""A federation whose label holder scores single rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from opboost_ops.extras.serving import scorer as serving
from opboost_ops.learning.registry.registry import Registry
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.pipeline.scoring_data import NAME, dataset


@pytest.fixture(scope="session")
def scored_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A federation that has trained two versions, and scored new rows with the first."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("served") / "federation",
        dataset("binary"),
        training={"trees": 8, "depth": 3},
        scoring={"mode": "desensitised", "calibration": "platt"},
    )
    with workspace.known():
        workspace.all()
        workspace.scoring().all()
        Workspace(workspace.folder, SECOND_RUN).all({"trees": 3})
    Registry(workspace.folder / "a" / "models", NAME).promote(FIRST_RUN, "as before")
    return workspace


@pytest.fixture
def served(
    scored_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    copy = scored_once.copy(tmp_path / "federation", SECOND_RUN, monkeypatch)
    # Looks at what has changed before each answer.
    monkeypatch.setattr(serving, "POLL_SECONDS", -1.0)
    yield copy
