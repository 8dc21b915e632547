"""The same inputs, written in another way, give the same run: byte by byte, seen from outside."""

import pytest

from tests.noninterference.observation import Observation, differences
from tests.noninterference.rewriting import REWRITINGS, TOGETHER
from tests.noninterference.runs import KINDS, Beginnings, seen

#: The kinds of run that `make test` has; `make test-slow` has all.
FAST = ("training", "refused, over budget")


def _marked(kinds: list[str]) -> list[object]:
    return [pytest.param(kind, marks=() if kind in FAST else (pytest.mark.slow,)) for kind in kinds]


@pytest.mark.parametrize("kind", _marked(list(KINDS)))
def test_all_rewritings_together_change_nothing(
    beginnings: Beginnings, baseline: Observation, kind: str
) -> None:
    again = seen(KINDS[kind], beginnings.begin(KINDS[kind], *TOGETHER))
    assert differences(baseline, again) == []


@pytest.mark.parametrize("kind", _marked(list(KINDS)))
def test_a_run_is_what_its_kind_says(baseline: Observation, kind: str) -> None:
    """So that no kind is the same because it does nothing."""
    errors = [place.removeprefix("error/") for place in baseline if place.startswith("error/")]
    assert errors == ([KINDS[kind].ends] if KINDS[kind].ends else [])
    assert any(place.startswith("exchange/") for place in baseline)
    assert any(place.startswith("log/") for place in baseline)
    assert baseline["printed"] == b""


@pytest.mark.parametrize(
    "kind",
    [
        "training",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "training"),
    ],
)
def test_two_runs_on_the_same_input_are_the_same(
    beginnings: Beginnings, baseline: Observation, kind: str
) -> None:
    assert differences(baseline, seen(KINDS[kind], beginnings.begin(KINDS[kind]))) == []


@pytest.mark.deployment
@pytest.mark.parametrize("rewriting", REWRITINGS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "tried again" not in kind])
def test_each_rewriting_changes_nothing(
    beginnings: Beginnings, baseline: Observation, kind: str, rewriting: str
) -> None:
    again = seen(KINDS[kind], beginnings.begin(KINDS[kind], rewriting))
    assert differences(baseline, again) == []
