"""What releases add up to, and what a budget refuses, from public facts alone."""

import uuid
from fractions import Fraction
from typing import Any

import pytest

from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import GlobalMap, LocalMap, MissingBit
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.privacy.accountant import Budget, accounts, forecast
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import loss_curve

TEN = Domain(1, 10)
CURVE = loss_curve(GlobalMap(epsilon=0.5), TEN)
STEP, WHOLE = Fraction(CURVE.loss[0]), Fraction(CURVE.loss[-1])
AGE = uuid.UUID(int=1)


def release(draws: str, feature: str = "age", **changes: Any) -> Release:
    facts: dict[str, Any] = {
        "federation": "credit",
        "run": "0" * 16,
        "party": "bank",
        "receiver": "lender",
        "kind": "ranks",
        "artifact": f"{draws}/{feature}".ljust(64, "-"),
        "account": "local_dp",
        "feature": feature,
        "column": AGE,
        "draws": draws,
        "loss": CURVE,
        "rows": 9,
        **changes,
    }
    return Release(**facts)


def policy(**rule: Any) -> Policy:
    everything = rule.pop("all_features", {})
    return Policy.model_validate(
        {
            "version": 1,
            "party": "bank",
            "features": {"age": {"mechanisms": ["global_map"], **rule}},
            "all_features": everything,
        }
    )


def test_different_draws_add_up_and_the_same_ones_do_not() -> None:
    found = accounts([release("a"), release("a", kind="holdout", artifact="x"), release("b")])[AGE]
    assert (found.releases, found.step, found.whole) == (2, 2 * STEP, 2 * WHOLE)


def test_a_missing_bit_adds_to_its_column_without_being_a_release() -> None:
    bit = loss_curve(MissingBit(epsilon=0.25), BIT)
    found = accounts([release("a"), release("a", "age=missing", loss=bit)])[AGE]
    assert (found.feature, found.releases) == ("age", 1)
    assert found.step == STEP + Fraction(bit.loss[0])


def test_a_renamed_column_goes_on_as_it_was() -> None:
    """Charged by UUID: both names count, the last one is shown, the same draw is not new."""
    renamed = [release("a"), release("a", "years"), release("b", "years")]
    found = accounts(renamed)[AGE]
    assert (found.feature, found.releases, found.step) == ("years", 2, 2 * STEP)


def test_what_is_exact_or_of_another_column_is_charged_elsewhere() -> None:
    other = uuid.UUID(int=2)
    found = accounts([release("a"), release("b", column=other), release("c", account="exact")])
    assert {c: a.releases for c, a in found.items()} == {AGE: 1, other: 1}


@pytest.mark.parametrize("fits", [1, 2, 7])
def test_a_forecast_is_exact_to_the_last_digit(fits: int) -> None:
    budget = float(fits + 3) * float(WHOLE)
    rule = policy(budget_whole=budget).features["age"]
    spent = accounts([release(name) for name in "abc"])[AGE]
    expected = int((Fraction(budget) - 3 * WHOLE) // WHOLE)
    assert forecast(spent, rule, [CURVE]).retrainings == expected
    assert expected in (fits, fits - 1)
    before = [release(name) for name in "abc"]
    budgets = Budget(policy(budget_whole=budget), {AGE: "age"})
    for i in range(expected):
        budgets(before, [release(f"new {i}")])
        before.append(release(f"new {i}"))
    with pytest.raises(BudgetError, match=r"features\.age\.budget_whole"):
        budgets(before, [release("one more")])


def test_no_budget_has_no_forecast() -> None:
    rule = policy().features["age"]
    assert forecast(accounts([release("a")])[AGE], rule, [CURVE]).retrainings is None


@pytest.mark.parametrize(
    ("caps", "told"),
    [
        ({"max_loss_1": 0.1}, "all_features.max_loss_1 is 0.1"),
        ({"max_loss_whole": 1}, "all_features.max_loss_whole is 1"),
        ({"budget_1": 0.5}, "all_features.budget_1 is 0.5"),
        ({"budget_whole": 3}, "all_features.budget_whole is 3"),
    ],
)
def test_sums_over_features_are_capped(caps: dict[str, float], told: str) -> None:
    second = uuid.UUID(int=2)
    budget = Budget(policy(all_features=caps), {AGE: "age", second: "debt"})
    with pytest.raises(BudgetError) as caught:
        budget([release("a")], [release("b"), release("b", "debt", column=second)])
    assert told in str(caught.value)
    assert "would be" in str(caught.value)


def test_cells_that_partitions_leave_may_not_become_too_narrow() -> None:
    """Local-map with theta 4 and then 3 on [1, 12] isolates single values."""
    twelve = Domain(1, 12)
    curve = loss_curve(LocalMap(epsilon=1, theta=4), twelve)
    edges = [
        tuple(float(start) for start in LocalMap(epsilon=1, theta=t).partitions(twelve).starts[1:])
        for t in (4, 3)
    ]
    first, second = (release(f"{i}", loss=curve, edges=e) for i, e in enumerate(edges))
    budget = Budget(policy(least_cell_width=2), {AGE: "age"})
    budget([], [first])
    budget([first], [release("same partitions", loss=curve, edges=edges[0])])
    with pytest.raises(BudgetError, match="would leave a cell of 1"):
        budget([first], [second])
    assert accounts([first, second])[AGE].least_cell == 1


def test_an_infinite_loss_passes_every_budget() -> None:
    curve = loss_curve(LocalMap(epsilon=1, theta=4), TEN)
    budget = Budget(policy(budget_whole=1000), {AGE: "age"})
    with pytest.raises(BudgetError, match="would be infinite"):
        budget([], [release("a", loss=curve)])
