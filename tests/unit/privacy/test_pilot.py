"""What a pilot leaves for later, and that budgets hold both to the last digit."""

import math
from fractions import Fraction

import pytest

from opboost_ops.config.pilot import Pilot
from opboost_ops.config.policy import AllFeatures, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.accountant import totals
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.pilot import still_to_come, uncapped
from tests.federation import Workspace
from tests.unit.privacy.test_accountant import AGE, STEP, release


@pytest.mark.parametrize(
    ("declared", "later"),
    [
        (None, (0, 0)),
        ({"total_loss_1": 2.0}, (2, 18)),
        ({"total_loss_whole": 4.0}, (4, 4)),
        ({"total_loss_1": 2.0, "total_loss_whole": 4.0}, (2, 4)),
        ({"total_loss_1": 0.1, "total_loss_whole": 4.0}, (Fraction(0.1), 9 * Fraction(0.1))),
    ],
)
def test_both_ends_are_bounded_by_either(
    trained_once: Workspace, declared: dict[str, float] | None, later: tuple[Fraction, Fraction]
) -> None:
    """On ten values: loss(1) <= loss(R - L) <= 9 loss(1), whatever the channel."""
    federation = trained_once.declared
    bank = federation.parties["bank"].model_copy(
        update={"pilot": None if declared is None else Pilot(**declared)}
    )
    parties = {**federation.parties, "bank": bank}
    planned = federation.model_copy(update={"parties": parties})
    assert still_to_come(planned, "bank") == later
    assert still_to_come(planned, "shop") == (0, 0)


def test_what_is_left_for_later_counts_to_the_last_digit() -> None:
    """Towards another receiver the same column is another key, and adds up."""
    spent = 2 * STEP + Fraction(1.5)
    enough = float(spent)
    enough = enough if Fraction(enough) >= spent else math.nextafter(enough, math.inf)
    before = [release("a", receiver="other", cells="other")]
    later = (Fraction(1.5), Fraction(0))
    for budget, passes in ((enough, True), (math.nextafter(enough, 0), False)):
        policy = Policy(version=1, party="bank", all_features=AllFeatures(budget_1=budget))
        rule = Budget(policy, {AGE: "age"}, later)
        if passes:
            rule(totals(before), [release("b")])
            continue
        with pytest.raises(BudgetError, match=r"all_features\.budget_1.*loss\(1\) of 1\.5"):
            rule(totals(before), [release("b")])
        Budget(policy, {AGE: "age"})(totals(before), [release("b")])


def test_where_nothing_is_drawn_anew_the_later_release_is_not_asked_room_for_again() -> None:
    """The pilot's own version is scored, or its run cleared, when what followed it has the room."""
    both = [release("pilot"), release("final", cells="final")]
    policy = Policy(version=1, party="bank", all_features=AllFeatures(budget_1=float(2 * STEP)))
    rule = Budget(policy, {AGE: "age"}, (STEP, Fraction(0)))
    rule(totals(both), [])
    rule(totals(both), [release("told", draw=None, loss=None, kind="ranks")])
    with pytest.raises(BudgetError, match="This is a pilot"):
        rule(totals(both), [release("once more")])


@pytest.mark.parametrize(
    ("caps", "lacking"),
    [
        ({}, 2),
        ({"budget_1": 1.0}, 1),
        ({"budget_1": 1.0, "budget_whole": 1.0}, 0),
        # What follows could never be as dear as declared: the pilot would be paid for nothing.
        ({"budget_1": 1.0, "budget_whole": 1.0, "max_loss_1": 0.5}, 1),
        ({"budget_1": 1.0, "budget_whole": 1.0, "max_loss_1": 1.0, "max_loss_whole": 0.9}, 1),
    ],
)
def test_a_pilot_needs_the_caps_of_its_totals(caps: dict[str, float], lacking: int) -> None:
    policy = Policy(version=1, party="bank", all_features=AllFeatures(**caps))
    assert len(uncapped(policy, Pilot(total_loss_1=1.0, total_loss_whole=1.0))) == lacking
