"""What releases add up to, from public facts alone: worst cases, budgets, structure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from uuid import UUID

from opboost_ops.config.columns import Column
from opboost_ops.config.policy import FeatureRule, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import LossCurve

_INFINITE = Decimal("Infinity")


@dataclass
class Account:
    """What one column has cost a person at worst.

    Every different release counts as if each person's value had changed for it: from outside it
    cannot be seen whose did. A release that shows the same outputs again counts once.

    Attributes:
        feature: Its last known name.
        releases: How many different releases there were of its values.
        step: Sum of loss(1).
        whole: Sum of loss(R - L).
        edges: All partition edges and thresholds ever disclosed exactly, in the feature's unit.
    """

    feature: str
    releases: int = 0
    step: Decimal = Decimal(0)
    whole: Decimal = Decimal(0)
    edges: set[float] = field(default_factory=set)

    @property
    def least_cell(self) -> float | None:
        """Width of the narrowest cell between disclosed edges; None with fewer than two."""
        return min((b - a for a, b in pairwise(sorted(self.edges))), default=None)


def accounts(releases: Iterable[Release]) -> dict[UUID, Account]:
    """What each column has cost so far.

    A training and a held-out artifact of one run hold different people, so what they draw has
    one name and counts once: what is stated is the maximum over people.

    Args:
        releases: Of one party.
    """
    found: dict[UUID, Account] = {}
    counted: set[tuple[UUID, str, str]] = set()
    for release in releases:
        if release.account != "local_dp" or release.column is None or release.loss is None:
            continue
        name = release.feature or ""
        account = found.setdefault(release.column, Account(name.split("=")[0]))
        account.edges |= set(release.edges)
        draw = (release.column, name, release.draws or release.artifact)
        if draw in counted:
            continue
        counted.add(draw)
        account.releases += name == account.feature
        account.step += exact(release.loss.loss[0])
        account.whole += exact(release.loss.loss[-1])
    return found


@dataclass(frozen=True)
class Forecast:
    """What is left of a column's budgets under its present declaration.

    Attributes:
        retrainings: How many more retrainings on changed data fit; None without a budget.
    """

    feature: str
    account: Account
    rule: FeatureRule
    retrainings: int | None


def forecast(account: Account, rule: FeatureRule, losses: Sequence[LossCurve]) -> Forecast:
    """How many more configured retrainings fit, exactly.

    Args:
        account: What the column has cost.
        rule: The policy's.
        losses: What one retraining costs: the column's own curve, and its missing bit's.
    """
    fits: list[int] = []
    for budget, spent, cost in (
        (rule.budget_1, account.step, sum((exact(c.loss[0]) for c in losses), Decimal(0))),
        (rule.budget_whole, account.whole, sum((exact(c.loss[-1]) for c in losses), Decimal(0))),
    ):
        if budget is None:
            continue
        left = exact(budget) - spent
        fits.append(0 if left < cost or cost.is_infinite() else int(left // cost))
    return Forecast(account.feature, account, rule, min(fits) if fits else None)


class Budget:
    """A party's budgets as a rule of its ledger: refuses what would pass one of them.

    Args:
        policy: The party's.
        columns: What it releases in the federation at hand.
    """

    def __init__(self, policy: Policy, columns: Iterable[Column]) -> None:
        self._policy = policy
        self._feature = {column.uuid: column.feature for column in columns}

    def __call__(self, before: Sequence[Release], new: Sequence[Release]) -> None:
        """Refuse releases that pass a budget.

        Raises:
            BudgetError: Naming every budget that would be passed, and by how much; from public
                facts alone.
        """
        after = accounts([*before, *new])
        over: list[str] = []
        for uuid, account in after.items():
            feature = self._feature.get(uuid)
            rule = self._policy.features.get(feature or "")
            if rule is None:
                continue
            over += _over(f"features.{feature}.budget_1", rule.budget_1, account.step)
            over += _over(f"features.{feature}.budget_whole", rule.budget_whole, account.whole)
            least = account.least_cell
            width = rule.least_cell_width
            if width is not None and least is not None and least < width:
                over.append(
                    f"features.{feature}.least_cell_width is {width:g}, and all edges ever "
                    f"disclosed would leave a cell of {least:g}"
                )
        total = self._policy.all_features
        steps = sum((a.step for a in after.values()), Decimal(0))
        wholes = sum((a.whole for a in after.values()), Decimal(0))
        over += _over("all_features.budget_1", total.budget_1, steps)
        over += _over("all_features.budget_whole", total.budget_whole, wholes)
        per_run = accounts(new)
        steps = sum((a.step for a in per_run.values()), Decimal(0))
        wholes = sum((a.whole for a in per_run.values()), Decimal(0))
        over += _over("all_features.max_loss_1", total.max_loss_1, steps)
        over += _over("all_features.max_loss_whole", total.max_loss_whole, wholes)
        if over:
            raise BudgetError(
                f"This release would pass the policy of {self._policy.party}: {'; '.join(over)}.",
                "Nothing was published. Its owner may raise the budget in policy.yaml, or end the "
                "retraining.",
            )


def exact(loss: float | str) -> Decimal:
    """A published loss as the number that it is."""
    return _INFINITE if loss == "inf" else Decimal(loss)


def _over(name: str, cap: float | None, asked: Decimal) -> list[str]:
    if cap is None or asked <= Decimal(cap):
        return []
    told = "infinite" if asked.is_infinite() else f"{asked:.4f}"
    return [f"{name} is {cap:g}, and would be {told}"]
