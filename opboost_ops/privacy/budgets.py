"""A party's budgets: how many more retrainings fit into them, and which releases they refuse."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from opboost_ops.config.policy import AllFeatures, FeatureRule, ModelBudget, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.accountant import Account, Key, Loss, Totals, exact, times, total
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.model_account import account_of
from opboost_ops.privacy.structure import Structure


@dataclass(frozen=True)
class Forecast:
    """What is left of a column's budgets under its present declaration and cap.

    Attributes:
        retrainings: How many more retrainings on changed data fit; None where they are unlimited.
        budget: The budget that ends them; empty where none does.
        step: What loss(1) comes to if they are unlimited; None where nothing bounds it.
        whole: The same of loss(R - L).
        growing: The present noise keys, and how many more draws under each cost anything.
            Federations that release the column under different keys have one each.
    """

    feature: str
    account: Account
    rule: FeatureRule
    retrainings: int | None
    budget: str
    step: Loss | None
    whole: Loss | None
    growing: tuple[tuple[Key, int], ...]

    @property
    def draws(self) -> int:
        """After how many more draws under the present noise keys none costs anything."""
        return max((steps for _, steps in self.growing), default=0)

    @property
    def shared(self) -> bool:
        """Whether several federations draw, so that a retraining of each is meant."""
        return len({key.federation for key, _ in self.growing}) > 1

    @property
    def frozen(self) -> bool:
        """Whether no further draw costs anything: each cell is at the cap on its values."""
        return bool(self.account.keys) and self.draws == 0

    @property
    def lasts(self) -> bool:
        """Whether there are budgets, and they allow unlimited retrainings."""
        budgets = (self.rule.budget_1, self.rule.budget_whole)
        return self.retrainings is None and budgets != (None, None)


def forecast(account: Account, rule: FeatureRule) -> Forecast:
    """How many more retrainings under the present noise keys fit, exactly.

    With ``max_changes`` in force the account ends at a height that no further draw passes: where
    the budgets allow that height, retrainings are unlimited.

    Args:
        account: What the column has cost.
        rule: The policy's.
    """
    present = {(key.bit, key.federation): key for key in account.keys.values()}
    left = [(k, k.worst.steps_left(rule.max_changes, k.inputs)) for k in present.values()]
    return _forecast(account, rule, left, rule.max_changes is not None and bool(present))


def forecast_of_all(
    spent: Mapping[UUID, Account], growing: Iterable[Forecast], caps: AllFeatures
) -> Forecast:
    """The same of the budgets on all features of a person together.

    Args:
        spent: What all columns of the party have cost.
        growing: Of the columns that the next runs release.
        caps: The policy's.
    """
    account = Account("all_features")
    for uuid, one in spent.items():
        account.keys |= {(f"{uuid} {bit}", at): key for (bit, at), key in one.keys.items()}
    rule = FeatureRule(budget_1=caps.budget_1, budget_whole=caps.budget_whole)
    every = list(growing)
    bounded = all(one.step is not None for one in every)
    return _forecast(account, rule, [pair for one in every for pair in one.growing], bounded)


def _forecast(
    account: Account, rule: FeatureRule, left: Sequence[tuple[Key, int]], bounded: bool
) -> Forecast:
    ends: list[Loss] = []
    fits: dict[str, int] = {}
    for name, budget, spent, end in (
        ("budget_1", rule.budget_1, account.step, 0),
        ("budget_whole", rule.budget_whole, account.whole, -1),
    ):
        costs = [(exact(key.loss.loss[end]), steps) for key, steps in left]
        ends.append(total([spent, *(times(cost, steps) for cost, steps in costs)]))
        if budget is None or ends[-1] <= Fraction(budget):
            continue
        fits[name] = _fits(Fraction(budget) - spent, costs)
    return Forecast(
        account.feature,
        account,
        rule,
        min(fits.values(), default=None),
        min(fits, key=fits.__getitem__, default=""),
        ends[0] if bounded else None,
        ends[1] if bounded else None,
        tuple(left),
    )


def _fits(left: Loss, costs: Sequence[tuple[Loss, int]]) -> int:
    """How many draws fit, of which each part costs its loss as often as it can still grow."""
    for number in range(max((steps for _, steps in costs), default=0)):
        left -= total(cost for cost, steps in costs if number < steps)
        if left < 0:
            return number
    return max((steps for _, steps in costs), default=0)


class Budget:
    """A party's budgets as a rule of its ledger: refuses what would exceed one of them.

    Args:
        policy: The party's.
        features: The features that it releases in the federation at hand, by UUID.
    """

    def __init__(self, policy: Policy, features: Mapping[UUID, str]) -> None:
        self._policy = policy
        self._feature = features

    def __call__(self, before: Totals, new: Sequence[Release]) -> None:
        """Refuse releases that exceed a budget.

        Raises:
            BudgetError: Naming every budget that would be exceeded, and by how much; from public
                facts alone.
        """
        summed = before.with_releases(new)
        known, after = before.accounts, summed.accounts
        over: list[str] = []
        for uuid, account in after.items():
            feature = self._feature.get(uuid)
            rule = self._policy.features.get(feature or "")
            if rule is None:
                continue
            over += _over(f"features.{feature}.budget_1", rule.budget_1, account.step)
            over += _over(f"features.{feature}.budget_whole", rule.budget_whole, account.whole)
            told = known[uuid].structure if uuid in known else Structure()
            least = account.least_cell
            width = rule.least_cell_width
            # What is told already cannot be taken back, and is told again at no further cost.
            narrow = width is not None and least is not None and least < width
            if narrow and account.structure.tells_more_than(told):
                over.append(
                    f"features.{feature}.least_cell_width is {width:g}, and all edges ever "
                    f"disclosed would leave a cell of {least:g}"
                )
        caps = self._policy.all_features
        step, whole = total(a.step for a in after.values()), total(a.whole for a in after.values())
        over += _over("all_features.budget_1", caps.budget_1, step)
        over += _over("all_features.budget_whole", caps.budget_whole, whole)
        # Only a new model is refused for what models have cost.
        if any(release.account == "model" for release in new):
            over += _over_models(self._policy.model_budget, summed.models)
        if over:
            raise BudgetError(
                f"This release would exceed the privacy budget of {self._policy.party}: "
                f"{'; '.join(over)}.",
                "Nothing was published. Its owner may raise the budget in policy.yaml, or end the "
                "retraining.",
            )


def _over_models(budget: ModelBudget | None, releases: Sequence[Release]) -> list[str]:
    if budget is None:
        return []
    account = account_of(releases, budget)
    at = f" at delta {account.delta:g}" if account.delta else ""
    return _over(f"model_budget.epsilon{at}", budget.epsilon, account.epsilon)


def _over(name: str, cap: float | None, asked: Loss) -> list[str]:
    if cap is None or asked <= Fraction(cap):
        return []
    told = "infinite" if asked == math.inf else f"{float(asked):.4f}"
    return [f"{name} is {cap:g}, and would be {told}"]
