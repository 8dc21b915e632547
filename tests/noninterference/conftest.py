"""Federations that runs of the suite begin from."""

import pytest

from tests.noninterference.observation import Observation
from tests.noninterference.runs import KINDS, Beginnings, seen


@pytest.fixture(scope="session")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Beginnings:
    return Beginnings.write(tmp_path_factory.mktemp("noninterference"))


@pytest.fixture(scope="session")
def baselines() -> dict[str, Observation]:
    """What was seen of each kind of run on inputs as they are, once it has been looked at."""
    return {}


@pytest.fixture
def baseline(beginnings: Beginnings, baselines: dict[str, Observation], kind: str) -> Observation:
    if kind not in baselines:
        baselines[kind] = seen(KINDS[kind], beginnings.begin(KINDS[kind]))
    return baselines[kind]
