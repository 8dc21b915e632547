"""A small trained federation that several files share."""

import pytest

from tests.federation import Workspace
from tests.integration.pipeline.scoring_data import dataset


@pytest.fixture(scope="session")
def toys_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A model of two classes, evaluated in all modes. Tests copy it and never change it."""
    workspace = Workspace.write(
        tmp_path_factory.mktemp("toys") / "federation",
        dataset("binary"),
        training={"trees": 4, "depth": 3},
        scoring={"mode": "desensitised", "evaluate": ["routed", "local"]},
    )
    workspace.all()
    return workspace
