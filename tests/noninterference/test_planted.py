"""Each planted dependency makes the suite fail."""

import pytest

from tests.noninterference.observation import Observation, Watch, differences
from tests.noninterference.planted import PLANTED
from tests.noninterference.runs import KINDS, Beginnings, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_dependency_is_caught(
    beginnings: Beginnings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    planted = PLANTED[name]
    kind = KINDS[planted.kind]
    names = [planted.rewriting] if planted.rewriting else []

    def once(*rewritings: str) -> Observation:
        def work(watch: Watch) -> None:
            watch.all(planted.until)

        return seen(kind, beginnings.begin(kind, *rewritings), work)

    planted.plant(monkeypatch)
    assert differences(once(), once(*names)) != []
