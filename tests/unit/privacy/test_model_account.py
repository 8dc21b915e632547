"""Private models together: one curve, the sum beside it, and how many more a budget allows."""

import pytest

from opboost_ops.config.policy import ModelBudget, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.learning.private import leaf_sums
from opboost_ops.privacy.ledger import renyi
from opboost_ops.privacy.ledger.budgets import Budget, account_of, remaining_models
from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.ledger.renyi import ORDERS, RenyiCurve


def entry(run: str, kind: str = "model", **of: object) -> LedgerEntry:
    return LedgerEntry(
        federation="f", run=run, party="p", receiver="all", kind=kind, artifact=run + kind,
        account="model", rows=0, **of,
    )  # fmt: skip


def nightly(nights: int, epsilon: float = 1.0, delta: float = 1e-6) -> list[LedgerEntry]:
    noise = leaf_sums.sums_of("binary", 200, epsilon, delta).noise
    spent = {"epsilon": noise.curve.epsilon, "curve": noise.curve, "replaced": noise.replaced}
    return [entry(str(night), **spent) for night in range(nights)]


def test_curves_are_added_and_turned_into_epsilon_once() -> None:
    curve = RenyiCurve(values=renyi.skellam(10, 20, 4000.0), delta=1e-6)
    spent = {"epsilon": curve.epsilon, "curve": curve, "replaced": curve}
    noisy = [entry(str(i), **spent) for i in range(4)]
    assert float(account_of(noisy[:1]).epsilon) == pytest.approx(curve.epsilon)
    together = account_of(noisy)
    assert float(together.epsilon) < 0.6 * 4 * curve.epsilon
    assert float(together.sum_epsilon) == pytest.approx(4 * curve.epsilon)
    assert (together.sum_delta, together.delta) == (4e-6, 1e-6)
    # A model without a delta enters as epsilon^2 / 2 an order, and never above its epsilon.
    mixed = account_of([*noisy, entry("pure", epsilon=0.1)])
    values = [4 * v + min(a * 0.1**2 / 2, 0.1) for a, v in zip(ORDERS, curve.values, strict=True)]
    assert float(mixed.epsilon) == pytest.approx(renyi.epsilon_of(values, 1e-6))
    assert mixed.delta == 1e-6


def test_models_with_epsilon_alone_add_up_unless_a_delta_makes_them_cost_less() -> None:
    pure = [entry("a", epsilon=0.1), entry("b", epsilon=0.2)]
    account = account_of(pure)
    assert float(account.epsilon) == pytest.approx(0.3, abs=1e-15)
    assert (account.delta, account.replaced) == (0, pytest.approx(0.6))
    year = [entry(str(night), epsilon=0.1) for night in range(365)]
    budget = ModelBudget(epsilon=20, delta=1e-6)
    assert float(account_of(year).epsilon) == pytest.approx(36.5)
    composed = account_of(year, budget)
    assert float(composed.epsilon) < 13
    assert composed.delta == 1e-6
    assert 2 * composed.epsilon < composed.replaced < 2.5 * float(composed.epsilon)
    # Two of them are cheaper by their sum, which needs no delta.
    assert account_of(pure, budget).epsilon == account.epsilon


def test_a_year_of_nights_fits_into_one_budget() -> None:
    """365 models of (1, 1e-6) on the same rows, at delta 1e-6 for all of them together."""
    account = account_of(nightly(365))
    assert account.trainings == 365
    assert float(account.sum_epsilon) == pytest.approx(365, rel=1e-3)
    assert account.delta == 1e-6
    assert 25 < float(account.epsilon) <= 31.1
    assert 2 * account.epsilon < account.replaced < 80


def test_the_budget_caps_what_a_replaced_row_costs() -> None:
    """Row counts are public, so a neighbour is a table with another row in one's place."""
    nights = nightly(10)
    account = account_of(nights)
    Budget(policy_of(float(account.replaced) * 1.001)).models(nights[:9], nights[9:])
    with pytest.raises(BudgetError, match="for a replaced row"):
        Budget(policy_of(float(account.replaced) * 0.999)).models(nights[:9], nights[9:])


def policy_of(epsilon: float) -> Policy:
    budget = {"epsilon": epsilon, "delta": 1e-6}
    return Policy.model_validate({"version": 1, "party": "p", "model_budget": budget})


def test_noisy_metrics_join_the_curve() -> None:
    models = nightly(5)
    metrics = [entry(str(night), "metrics", epsilon=0.1) for night in range(5)]
    with_metrics, alone = account_of([*models, *metrics]), account_of(models)
    assert with_metrics.trainings == 5
    # Less than the half that their sum would add.
    assert alone.epsilon < with_metrics.epsilon < float(alone.epsilon) + 0.3


@pytest.mark.parametrize("metrics", [False, True])
def test_as_many_more_models_as_are_said_fit_and_no_further_one(metrics: bool) -> None:
    budget = ModelBudget(epsilon=12.0, delta=1e-6)
    night = nightly(1)
    if metrics:
        night.append(entry("0", "metrics", epsilon=0.5))
    more = remaining_models(night, budget)
    assert more is not None and 2 < more < 40
    fits, over = (account_of(night * (1 + count), budget).replaced for count in (more, more + 1))
    assert fits <= budget.epsilon < over
    assert remaining_models(night * (2 + more), budget) == 0
    assert remaining_models([], budget) is None
