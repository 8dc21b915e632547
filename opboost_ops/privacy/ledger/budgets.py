"""A party's budgets: one for each raw column, one for all of them, and one for models."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from opboost_ops.config.policy import Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.declarations import Loss
from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.ledger.model_account import account_of
from opboost_ops.privacy.releases import Release


def total(losses: Sequence[Loss]) -> Loss:
    """The sum of losses, exactly."""
    return sum(losses, Fraction(0))


def budget_of(policy: Policy, column: str) -> float | None:
    """The budget of a raw column: the least of its features'; None where there is none.

    Args:
        policy: The party's.
        column: Name of the raw column.
    """
    budgets = [
        rule.budget
        for name, rule in policy.features.items()
        if rule.budget is not None and (rule.column or name).strip() == column
    ]
    return min(budgets, default=None)


class Budget:
    """A party's budgets as a rule for new releases and new models.

    Args:
        policy: The party's.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __call__(self, spent: Mapping[str, Loss], new: Sequence[Release]) -> None:
        """Refuse releases that exceed a budget.

        Args:
            spent: What each raw column has cost.
            new: The releases that would open.

        Raises:
            BudgetError: Naming every budget that would be exceeded, from public facts alone.
        """
        after = dict(spent)
        for release in new:
            after[release.column] = after.get(release.column, Fraction(0)) + release.loss
        over: list[str] = []
        for column in dict.fromkeys(release.column for release in new):
            budget = budget_of(self._policy, column)
            needs = total([r.loss for r in new if r.column == column])
            feature = next(r.feature for r in new if r.column == column)
            over += _over(f"features.{feature}.budget", budget, after[column], needs)
        everything = total(list(after.values()))
        needs = total([release.loss for release in new])
        over += _over("all_features.budget", self._policy.all_features.budget, everything, needs)
        self._refuse(over)

    def models(self, before: Sequence[LedgerEntry], new: Sequence[LedgerEntry]) -> None:
        """Refuse models that exceed the budget of models.

        Args:
            before: The entries of all models.
            new: The entries that would be added.

        Raises:
            BudgetError: Naming the budget.
        """
        budget = self._policy.model_budget
        if budget is None:
            return
        account = account_of([*before, *new], budget)
        at = f" at delta {account.delta:g}" if account.delta else ""
        if account.replaced > Fraction(budget.epsilon):
            self._refuse(
                [
                    f"model_budget.epsilon{at} is {budget.epsilon:g}, and all models would cost "
                    f"a replaced row {float(account.replaced):.4f}"
                ]
            )

    def _refuse(self, over: Sequence[str]) -> None:
        if over:
            raise BudgetError(
                f"This release would exceed the privacy budget of {self._policy.party}: "
                f"{'; '.join(over)}.",
                "Its owner may raise the budget in policy.yaml, or release less.",
                public=f"This release would exceed a privacy budget of {self._policy.party}. "
                "Its own people find the figures by `opboost audit show SITE`.",
            )


def _over(name: str, budget: float | None, after: Loss, needs: Loss) -> list[str]:
    if budget is None or after <= Fraction(budget):
        return []
    if needs == math.inf:
        return [f"{name} is {budget:g}, and the loss of this release is infinite"]
    spent = float(after - needs)
    return [f"{name} is {budget:g}, of which {spent:.4f} are spent and {float(needs):.4f} needed"]
