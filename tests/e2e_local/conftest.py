"""Each federation ends with its verification."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verifier.ending import assert_promises_held


@pytest.fixture(autouse=True)
def verified(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Verify what a test has run; ``breaks`` marks which promises it breaks on purpose."""
    yield
    marker = request.node.get_closest_marker("breaks")
    assert_promises_held([tmp_path], marker.args if marker else ())
