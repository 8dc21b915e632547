"""The model of the exchange keeps its invariants, and each planted fault breaks one."""

from pathlib import Path

import pytest

from tests.model.exchange import LENDER, Bounds, search
from tests.model.invariants import INVARIANTS

GUARANTEE = Path(__file__).parents[2] / "docs" / "guarantee.md"

#: Two parties and three, with nobody, the label holder or another feature holder hostile.
SETTINGS = {
    "two parties": Bounds(steps=8),
    "a hostile label holder": Bounds(hostile=LENDER, steps=7),
    "three parties": Bounds(holders=("bank", "shop"), steps=6),
    "three parties, a hostile label holder": Bounds(
        holders=("bank", "shop"), hostile=LENDER, steps=5
    ),
    "a hostile feature holder": Bounds(holders=("bank", "shop"), hostile="shop", steps=6),
}

#: How many more steps the slow search takes.
MORE = {"two parties": 3, "a hostile feature holder": 2}

_HOSTILE: dict[str, object] = {"hostile": LENDER}
_THREE: dict[str, object] = {"holders": ("bank", "shop"), "hostile": "shop"}

#: By planted fault, the invariant that it breaks, and what the search needs to find it.
FAULTS: dict[str, tuple[str, dict[str, object]]] = {
    "any_plan": ("agreed_plans", _HOSTILE),
    "second_plan": ("one_plan", _HOSTILE),
    "any_query": ("answered_queries", _HOSTILE),
    "uncounted": ("counted_queries", {}),
    "no_cap": ("query_cap", _HOSTILE),
    "over_budget": ("within_budget", {"budget": 1}),
    "late_charge": ("charged_first", {}),
    "no_reservation": ("reserved_first", {}),
    "each_run_draws": ("one_draw", {}),
    "fresh_retry": ("one_draw", {}),
    "retry_chooses_again": ("one_release", {"runs": 1}),
    "recovery_charges_nothing": ("draws_are_charged", {"runs": 1}),
    "overwritten": ("retries_repeat", {"runs": 1}),
    "any_request": ("own_splits", _HOSTILE),
    "any_requester": ("signed_requests", {**_THREE, "runs": 1}),
    "any_signer": ("signed_rows", _THREE),
    "rollback_ignored": ("rolled_back", {"runs": 1, "steps": 11}),
    "pins_stay": ("forgotten", {}),
    "forgotten_pinned": ("forgotten", {}),
    "stop_ignored": ("stopped", {}),
}


def counterexample(fault: str) -> tuple[str, ...]:
    """The shortest history in which a planted fault breaks its invariant."""
    invariant, more = FAULTS[fault]
    bounds = Bounds(**{"steps": 9, "faults": frozenset({fault}), **more})  # type: ignore[arg-type]
    _, broken, path = search(bounds, {invariant: INVARIANTS[invariant]})
    assert broken == invariant
    return path


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(setting, marks=pytest.mark.slow if "three" in setting else [])
        for setting in SETTINGS
    ],
)
def test_every_invariant_holds(setting: str) -> None:
    states, broken, path = search(SETTINGS[setting], INVARIANTS)
    assert (broken, path) == ("", ())
    assert states > 1000


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_invariant_holds_in_longer_histories(setting: str) -> None:
    bounds = SETTINGS[setting]
    _, broken, path = search(
        Bounds(bounds.holders, hostile=bounds.hostile, steps=bounds.steps + MORE.get(setting, 1)),
        INVARIANTS,
    )
    assert (broken, path) == ("", ())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_breaks_its_invariant(fault: str) -> None:
    assert counterexample(fault)


def test_each_invariant_is_a_sentence_of_the_guarantee_and_has_a_fault() -> None:
    text = " ".join(GUARANTEE.read_text().split())
    assert [name for name, check in INVARIANTS.items() if str(check.__doc__) not in text] == []
    assert {invariant for invariant, _ in FAULTS.values()} == set(INVARIANTS)
