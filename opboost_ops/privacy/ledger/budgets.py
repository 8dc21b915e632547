"""A party's budgets: one per raw column, one for all columns, and one for models.

Models and noisy metrics share one Renyi curve, to which each adds its own; a model with pure
epsilon adds the curve of `renyi.pure`. The sum is converted to (epsilon, delta) once. For
comparison, basic composition adds up epsilons and deltas.

Budgets use the neighbouring relation "replace a row", because row counts are public; adding or
removing a row costs less.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from opboost_ops.config.policy import ModelBudget, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.declarations import Loss
from opboost_ops.privacy.ledger import renyi
from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.ledger.renyi import RenyiCurve
from opboost_ops.privacy.release_records import Release

#: More models than this count as unlimited: one per night for a century.
_UNLIMITED = 36_500

#: The curve without any release.
_ZERO_CURVE = (0.0,) * len(renyi.ORDERS)


def budget_of(policy: Policy, column: str) -> float | None:
    """Return the budget of a raw column: the minimum over its features; None if there is none.

    Args:
        policy: The party's policy.
        column: Name of the raw column.
    """
    budgets = [
        rule.budget
        for name, rule in policy.features.items()
        if rule.budget is not None and (rule.column or name).strip() == column
    ]
    return min(budgets, default=None)


class Budget:
    """A party's budgets, as a check of new releases and new models.

    Args:
        policy: The party's policy.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def releases(self, spent: Mapping[str, Loss], new: Sequence[Release]) -> None:
        """Reject releases that exceed a budget.

        Args:
            spent: Loss spent by each raw column.
            new: The releases to open.

        Raises:
            BudgetError: The listed budgets would be exceeded; from public facts alone.
        """
        after = dict(spent)
        for release in new:
            after[release.column] = after.get(release.column, Fraction(0)) + release.loss
        over: list[str] = []
        for column in dict.fromkeys(release.column for release in new):
            budget = budget_of(self._policy, column)
            needs = total([r.loss for r in new if r.column == column])
            feature = next(r.feature for r in new if r.column == column)
            over += _excesses(f"features.{feature}.budget", budget, after[column], needs)
        everything = total(list(after.values()))
        needs = total([release.loss for release in new])
        over += _excesses(
            "all_features.budget", self._policy.all_features.budget, everything, needs
        )
        self._refuse(over)

    def models(self, before: Sequence[LedgerEntry], new: Sequence[LedgerEntry]) -> None:
        """Reject models that exceed the model budget.

        Args:
            before: Entries of all earlier models.
            new: Entries to add.

        Raises:
            BudgetError: The budget would be exceeded.
        """
        budget = self._policy.model_budget
        if budget is None:
            return
        account = account_of([*before, *new], budget)
        at = f" at delta {account.delta:g}" if account.delta else ""
        if account.replaced > Fraction(budget.epsilon):
            self._refuse(
                [
                    f"model_budget.epsilon{at} is {budget.epsilon:g}, and all models together "
                    f"would cost {float(account.replaced):.4f} for a replaced row"
                ]
            )

    def _refuse(self, over: Sequence[str]) -> None:
        if over:
            raise BudgetError(
                f"This release would exceed the privacy budget of {self._policy.party}: "
                f"{'; '.join(over)}.",
                "Its owner may raise the budget in policy.yaml, or release less.",
                public=f"This release would exceed a privacy budget of {self._policy.party}. "
                "The party can see the figures with `opboost audit show SITE`.",
            )


def _excesses(name: str, budget: float | None, after: Loss, needs: Loss) -> list[str]:
    if budget is None or after <= Fraction(budget):
        return []
    if needs == math.inf:
        return [f"{name} is {budget:g}, and the loss of this release is infinite"]
    spent = float(after - needs)
    return [f"{name} is {budget:g}, {spent:.4f} are spent, and it needs {float(needs):.4f}"]


@dataclass(frozen=True)
class ModelCharge:
    """The charge of a differentially private model.

    Attributes:
        epsilon: Its epsilon for adding or removing a row.
        name: ID of the draw; another draw is another release.
        rows: Number of rows for training or evaluation.
        what: The trees, or metrics with noise.
        curve: Renyi curve of an (epsilon, delta) model; epsilon is then that of the curve.
        replaced: Renyi curve for replacing a row.
    """

    epsilon: float
    name: str
    rows: int
    what: Literal["model", "metrics"] = "model"
    curve: RenyiCurve | None = None
    replaced: RenyiCurve | None = None


@dataclass(frozen=True)
class ModelAccount:
    """The cost of models for adding or removing a row, and for replacing one.

    Attributes:
        trainings: Number of models trained, whether or not they became champion.
        sum_epsilon: Sum of all epsilons.
        sum_delta: Sum of all deltas; 0 if all models have pure epsilon.
        epsilon: Composed epsilon at `delta`, at most the sum of pure epsilons.
        delta: Delta of the conversion of curves; 0 if none is needed.
        replaced: Composed epsilon for replacing a row, which `model_budget` caps.
        curve: Values of the shared curve for replacing a row.
    """

    trainings: int
    sum_epsilon: Fraction
    sum_delta: float
    epsilon: Fraction
    delta: float
    replaced: Fraction
    curve: tuple[float, ...]

    @property
    def document(self) -> Mapping[str, Any]:
        """The account as JSON."""
        return {
            "trainings": self.trainings,
            "sum_epsilon": float(self.sum_epsilon),
            "sum_delta": self.sum_delta,
            "epsilon": float(self.epsilon),
            "delta": self.delta,
            "epsilon_replaced": float(self.replaced),
        }


def account_of(releases: Iterable[LedgerEntry], budget: ModelBudget | None = None) -> ModelAccount:
    """Add up the cost of all private models of a party.

    Args:
        releases: Entries of the party; only those of models count.
        budget: Budget of the policy. Without one, or without a delta in it, the smallest delta of
            the models is used.
    """
    models = [release for release in releases if release.account == "model"]
    deltas = [release.curve.delta for release in models if release.curve]
    delta = _delta(deltas, budget)
    sum_epsilon = sum((Fraction(repr(m.epsilon)) for m in models if m.epsilon), Fraction(0))
    once = [m.curve.values if m.curve else renyi.pure(m.epsilon or 0.0) for m in models]
    twice = [m.replaced.values if m.replaced else renyi.pure(2 * (m.epsilon or 0)) for m in models]
    curve = renyi.composed([_ZERO_CURVE, *twice])
    added = renyi.composed([_ZERO_CURVE, *once])
    epsilon = _composed_epsilon(sum_epsilon, added, delta, bool(deltas))
    replaced = _composed_epsilon(2 * sum_epsilon, curve, delta, bool(deltas))
    return ModelAccount(
        trainings=sum(m.kind == "model" for m in models),
        sum_epsilon=sum_epsilon,
        sum_delta=sum(deltas),
        epsilon=epsilon,
        delta=delta if deltas or replaced < 2 * sum_epsilon else 0.0,
        replaced=replaced,
        curve=curve,
    )


def remaining_models(
    releases: Iterable[LedgerEntry], budget: ModelBudget, run: str = ""
) -> int | None:
    """Return how many more models like one fit into a budget, including its run's metrics.

    Args:
        releases: Entries charged so far.
        budget: Budget of the policy.
        run: The run of the model; by default that of the last model.

    Returns:
        None if they are practically unlimited, or if there is no model yet.
    """
    so_far = [release for release in releases if release.account == "model"]
    run = run or next((r.run for r in reversed(so_far) if r.kind == "model"), "")
    of_run = [release for release in so_far if release.run == run]
    if not of_run:
        return None
    base, each = account_of(so_far, budget), account_of(of_run, budget)
    deltas = [release.curve.delta for release in so_far if release.curve]
    delta, cap = _delta(deltas, budget), Fraction(budget.epsilon)

    def fits(count: int) -> bool:
        curve = renyi.composed([base.curve, renyi.repeated(each.curve, count)])
        spent = base.sum_epsilon + count * each.sum_epsilon
        return _composed_epsilon(2 * spent, curve, delta, bool(deltas)) <= cap

    if fits(_UNLIMITED):
        return None
    return bisect_left(range(1, _UNLIMITED), True, key=lambda count: not fits(count))


def _delta(declared: Sequence[float], budget: ModelBudget | None) -> float:
    if budget is not None and budget.delta is not None:
        return budget.delta
    return min(declared, default=0.0)


def _composed_epsilon(
    sum_epsilon: Fraction, curve: tuple[float, ...], delta: float, needs_delta: bool
) -> Fraction:
    """Return the curve's epsilon, or the sum if all models have pure epsilon and it is less."""
    if not delta or not any(curve):
        return sum_epsilon
    composed = Fraction(repr(renyi.epsilon_of(curve, delta)))
    return composed if needs_delta else min(sum_epsilon, composed)


def total(losses: Sequence[Loss]) -> Loss:
    """Return the exact sum of losses."""
    return sum(losses, Fraction(0))
