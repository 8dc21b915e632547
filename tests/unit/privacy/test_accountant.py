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
from opboost_ops.privacy.accountant import Totals, accounts
from opboost_ops.privacy.budgets import Budget, forecast
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.worst_case import CellBound

TEN = Domain(1, 10)
CURVE = loss_curve(GlobalMap(epsilon=0.5), TEN)
STEP, WHOLE = Fraction(CURVE.loss[0]), Fraction(CURVE.loss[-1])
AGE = uuid.UUID(int=1)


def release(draws: str, feature: str = "age", **changes: Any) -> Release:
    """A new draw, which raises the worst case by one."""
    draw = Draw(number=1, added=1, worst=1, inputs=10)
    facts: dict[str, Any] = {
        "federation": "credit",
        "run": "0" * 16,
        "party": "bank",
        "receiver": "lender",
        "kind": "draw",
        "artifact": f"{draws}/{feature}".ljust(64, "-"),
        "account": "local_dp",
        "feature": feature,
        "column": AGE,
        "cells": "key",
        "draws": draws,
        "draw": draw,
        "loss": CURVE,
        "rows": 9,
        **changes,
    }
    return Release(**facts)


def totals(releases: list[Release]) -> Totals:
    return Totals().with_releases(releases)


def history(count: int, most: int | None = None, inputs: int = 10) -> list[Release]:
    """So many new draws under one key, with a cap in force."""
    lines, worst = [], CellBound()
    for i in range(count):
        after = worst.after_draw(most, inputs)
        added = after.values - worst.values
        draw = Draw(number=i + 1, most=most, added=added, worst=after.values, inputs=inputs)
        lines.append(release(f"draw {i}", draw=draw))
        worst = after
    return lines


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


def test_draws_add_up_and_what_is_published_of_them_does_not() -> None:
    sent = [release("a", kind=kind, artifact=kind, draw=None) for kind in ("ranks", "holdout")]
    found = accounts([release("a"), *sent, release("b")])[AGE]
    assert (found.releases, found.step, found.whole) == (2, 2 * STEP, 2 * WHOLE)


def test_an_account_ends_where_the_cap_on_changes_is() -> None:
    found = accounts(history(365, most=2))[AGE]
    assert (found.releases, found.step, found.whole) == (365, 2 * STEP, 2 * WHOLE)


def test_former_releases_are_as_they_were_and_another_key_begins_anew() -> None:
    former = Draw(number=1, added=4, worst=4, inputs=10, stands_for=6)
    lines = [release("former", kind="former", draw=former), *history(9, most=2)[:1]]
    lines[1] = lines[1].model_copy(update={"cells": "another"})
    found = accounts(lines)[AGE]
    assert (found.releases, found.whole) == (7, 5 * WHOLE)
    assert {key.cells: key.worst.values for key in found.keys.values()} == {"key": 4, "another": 1}


def test_forecasts_say_where_an_account_ends() -> None:
    """Two values at most: with a budget for two there is no end of retrainings."""
    enough, short = 2.001 * float(WHOLE), 1.001 * float(WHOLE)
    for nights, budget, left, frozen in (
        (1, enough, None, False),
        (2, enough, None, True),
        (9, enough, None, True),
        (1, short, 0, False),
        (9, None, None, True),
    ):
        rule = policy(budget_whole=budget, max_changes=2).features["age"]
        told = forecast(accounts(history(nights, most=2))[AGE], rule)
        assert (told.retrainings, told.frozen, told.whole) == (left, frozen, 2 * WHOLE)
    told = forecast(accounts(history(3))[AGE], policy().features["age"])
    assert (told.retrainings, told.frozen, told.whole) == (None, False, None)


def test_a_forecast_counts_each_part_until_it_ends() -> None:
    """Ten values and a bit: the bit costs its epsilon once more, the values nine times."""
    bit = loss_curve(MissingBit(epsilon=0.25), BIT)
    lines = [
        release("a", draw=Draw(number=1, added=1, worst=1, inputs=10)),
        release("b", "age=missing", loss=bit, draw=Draw(number=1, added=1, worst=1, inputs=2)),
    ]
    spent = accounts(lines)[AGE]
    cost, more = float(WHOLE), float(bit.loss[-1])
    for budget, left in ((2 * cost + 1.9 * more, 0), (3 * cost + 2.1 * more, 2)):
        assert forecast(spent, policy(budget_whole=budget).features["age"]).retrainings == left
    everything = 10 * cost + 2.1 * more
    assert forecast(spent, policy(budget_whole=everything).features["age"]).retrainings is None


def test_a_forecast_counts_a_run_of_each_federation() -> None:
    """Under keys of their own each draws; a key that they share, or a former one, costs no more."""
    rule = policy(budget_whole=5.01 * float(WHOLE)).features["age"]
    for other, left in (
        ({"federation": "loans", "cells": "another"}, (1, True)),
        ({"federation": "loans"}, (3, False)),
        ({"cells": "another"}, (3, False)),
    ):
        spent = accounts([release("a"), release("b", **other)])[AGE]
        told = forecast(spent, rule)
        assert (told.retrainings, told.shared) == left, other


def test_a_missing_bit_adds_to_its_column_without_being_a_release() -> None:
    bit = loss_curve(MissingBit(epsilon=0.25), BIT)
    found = accounts([release("a"), release("a", "age=missing", loss=bit)])[AGE]
    assert (found.feature, found.releases) == ("age", 1)
    assert found.step == STEP + Fraction(bit.loss[0])


def test_a_renamed_column_goes_on_as_it_was() -> None:
    """Charged by UUID: both names count, the last one is shown, the same draw is not new."""
    renamed = [release("a"), release("a", "years", draw=None), release("b", "years")]
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
    assert forecast(spent, rule).retrainings == expected
    assert expected in (fits, fits - 1)
    before = [release(name) for name in "abc"]
    budgets = Budget(policy(budget_whole=budget), {AGE: "age"})
    for i in range(expected):
        budgets(totals(before), [release(f"new {i}")])
        before.append(release(f"new {i}"))
    with pytest.raises(BudgetError, match=r"features\.age\.budget_whole"):
        budgets(totals(before), [release("one more")])


@pytest.mark.parametrize(
    ("caps", "told"),
    [
        ({"budget_1": 0.5}, "all_features.budget_1 is 0.5"),
        ({"budget_whole": 3}, "all_features.budget_whole is 3"),
    ],
)
def test_sums_over_features_are_capped(caps: dict[str, float], told: str) -> None:
    second = uuid.UUID(int=2)
    budget = Budget(policy(all_features=caps), {AGE: "age", second: "debt"})
    with pytest.raises(BudgetError) as caught:
        budget(totals([release("a")]), [release("b"), release("b", "debt", column=second)])
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
    budget(totals([]), [first])
    budget(totals([first]), [release("same partitions", loss=curve, edges=edges[0])])
    with pytest.raises(BudgetError, match="would leave a cell of 1"):
        budget(totals([first]), [second])
    assert accounts([first, second])[AGE].least_cell == 1


def test_an_infinite_loss_passes_every_budget() -> None:
    curve = loss_curve(LocalMap(epsilon=1, theta=4), TEN)
    budget = Budget(policy(budget_whole=1000), {AGE: "age"})
    with pytest.raises(BudgetError, match="would be infinite"):
        budget(totals([]), [release("a", loss=curve)])
