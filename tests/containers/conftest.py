"""An engine with its images, and what several compose files' tests ask."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.containers import images as made
from tests.containers.engine import Engine


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that the containers' users can come to."""
    with TemporaryDirectory(prefix="opboost-containers-", dir="/var/lib") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def engine(place: Path) -> Iterator[Engine]:
    with Engine(place).running() as running:
        yield running


@pytest.fixture(scope="session")
def images(engine: Engine) -> made.Images:
    return made.prepare(engine)
