"""A party's budgets: one for each raw column, one for all of them, and one for models.

Models, and metrics with noise, share one Renyi curve: each has its own, and one with epsilon alone
has that of `renyi.pure`. The curve is turned into (epsilon, delta) once. Beside it stands the pure
sum, which is what basic composition gives: epsilons and deltas added up.

Budgets count rows that are replaced, because row counts are public; rows that are added or removed
cost less.
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

#: More models than this are as good as unlimited: a century of nights.
_MANY = 36_500

#: The curve of no release.
_NOTHING = (0.0,) * len(renyi.ORDERS)


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
            over += _excesses(f"features.{feature}.budget", budget, after[column], needs)
        everything = total(list(after.values()))
        needs = total([release.loss for release in new])
        over += _excesses(
            "all_features.budget", self._policy.all_features.budget, everything, needs
        )
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


def _excesses(name: str, budget: float | None, after: Loss, needs: Loss) -> list[str]:
    if budget is None or after <= Fraction(budget):
        return []
    if needs == math.inf:
        return [f"{name} is {budget:g}, and the loss of this release is infinite"]
    spent = float(after - needs)
    return [f"{name} is {budget:g}, {spent:.4f} are spent, and it needs {float(needs):.4f}"]


@dataclass(frozen=True)
class ModelCharge:
    """A differentially private model that was drawn.

    Attributes:
        epsilon: What it costs a row that is added or removed.
        name: Of the draw; another draw is another release.
        rows: How many rows it was trained on, or evaluated on.
        what: The trees, or metrics with noise.
        curve: Of a model that has (epsilon, delta); epsilon is then the curve's at its delta.
        replaced: The curve of a row that is replaced.
    """

    epsilon: float
    name: str
    rows: int
    what: Literal["model", "metrics"] = "model"
    curve: RenyiCurve | None = None
    replaced: RenyiCurve | None = None


@dataclass(frozen=True)
class ModelAccount:
    """The cost of models for a row that is added or removed, and for one that is replaced.

    Attributes:
        trainings: How many models were trained, champions or not.
        sum_epsilon: All epsilons, added up.
        sum_delta: All deltas, added up; 0 where all have epsilon alone.
        epsilon: Composed: the curve's at `delta`, and never above the sum of pure epsilons.
        delta: At which curves are turned into epsilon; 0 where none is needed.
        replaced: `epsilon` of a row that is replaced, which `model_budget` caps.
        curve: The values of the shared curve of replaced rows.
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
        """As JSON."""
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
        releases: Of the party; what is no model is left out.
        budget: The policy's, whose delta counts; else, or where it has none, the least delta that
            a model was declared with.
    """
    models = [release for release in releases if release.account == "model"]
    deltas = [release.curve.delta for release in models if release.curve]
    delta = _delta(deltas, budget)
    sum_epsilon = sum((Fraction(repr(m.epsilon)) for m in models if m.epsilon), Fraction(0))
    once = [m.curve.values if m.curve else renyi.pure(m.epsilon or 0.0) for m in models]
    twice = [m.replaced.values if m.replaced else renyi.pure(2 * (m.epsilon or 0)) for m in models]
    curve = renyi.composed([_NOTHING, *twice])
    epsilon = _composed_epsilon(sum_epsilon, renyi.composed([_NOTHING, *once]), delta, bool(deltas))
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


def more_such(releases: Iterable[LedgerEntry], budget: ModelBudget, run: str = "") -> int | None:
    """How many more models like one fit into a budget, with the metrics that its run has charged.

    Args:
        releases: What was charged so far.
        budget: The policy's.
        run: The run that made the model; the last model's when empty.

    Returns:
        None where they are as good as unlimited, or where there is no model yet.
    """
    so_far = [release for release in releases if release.account == "model"]
    run = run or next((r.run for r in reversed(so_far) if r.kind == "model"), "")
    such = [release for release in so_far if release.run == run]
    if not such:
        return None
    base, each = account_of(so_far, budget), account_of(such, budget)
    deltas = [release.curve.delta for release in so_far if release.curve]
    delta, cap = _delta(deltas, budget), Fraction(budget.epsilon)

    def fits(count: int) -> bool:
        curve = renyi.composed([base.curve, renyi.repeated(each.curve, count)])
        spent = base.sum_epsilon + count * each.sum_epsilon
        return _composed_epsilon(2 * spent, curve, delta, bool(deltas)) <= cap

    if fits(_MANY):
        return None
    return bisect_left(range(1, _MANY), True, key=lambda count: not fits(count))


def _delta(declared: Sequence[float], budget: ModelBudget | None) -> float:
    if budget is not None and budget.delta is not None:
        return budget.delta
    return min(declared, default=0.0)


def _composed_epsilon(
    sum_epsilon: Fraction, curve: tuple[float, ...], delta: float, needs_delta: bool
) -> Fraction:
    """The curve's epsilon; where all models have epsilon alone, their sum if that is less."""
    if not delta or not any(curve):
        return sum_epsilon
    composed = Fraction(repr(renyi.epsilon_of(curve, delta)))
    return composed if needs_delta else min(sum_epsilon, composed)


def total(losses: Sequence[Loss]) -> Loss:
    """The sum of losses, exactly."""
    return sum(losses, Fraction(0))
