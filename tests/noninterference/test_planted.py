"""Each planted dependency makes the suite fail."""

import pytest

from tests.noninterference.observation import Observation, Watch, differences
from tests.noninterference.planted import PLANTED
from tests.noninterference.runs import KINDS, Beginnings, seen

#: Those that need more than the first stages of a run.
LONG = (
    "noise by row and not by person", "ranks with ties by place in the table",
    "points in the order of the table", "sealed rows in the order of the table",
    "the number of row groups, in an artifact",
    "a sum over all rows", "rows of one file", "a cell in an error", "the first row of a lender",
    "held-out rows by place in the table", "a new row that others score",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=(pytest.mark.slow,) if name in LONG else ()) for name in PLANTED],
)
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
