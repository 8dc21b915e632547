"""What releases add up to, from public facts alone: worst cases, budgets, structure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from uuid import UUID

from opboost_ops.config.columns import MISSING
from opboost_ops.config.policy import FeatureRule, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy import renyi
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.structure import Structure

#: A loss or a sum of losses, exactly; a float only where it is infinite.
Loss = Fraction | float


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
        structure: What was ever disclosed exactly.
    """

    feature: str
    releases: int = 0
    step: Loss = Fraction(0)
    whole: Loss = Fraction(0)
    structure: Structure = field(default_factory=Structure)

    @property
    def least_cell(self) -> float | None:
        """Width of the narrowest cell that exact disclosures leave; None without any."""
        return self.structure.least_cell


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
        if release.account == "exact" or release.column is None:
            continue
        name = release.feature or ""
        feature, _, bit = name.partition("=")
        account = found.setdefault(release.column, Account(feature))
        account.feature = feature
        exactly = release.account == "structural" and bit == MISSING
        account.structure.add(release.edges, release.span, exactly)
        if release.loss is None:
            continue
        # By UUID, not by name: a renamed column is the same one, and is charged for both.
        draw = (release.column, bit, release.draws or release.artifact)
        if draw in counted:
            continue
        counted.add(draw)
        account.releases += not bit
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
        (rule.budget_1, account.step, total(exact(c.loss[0]) for c in losses)),
        (rule.budget_whole, account.whole, total(exact(c.loss[-1]) for c in losses)),
    ):
        if budget is None or not cost:
            continue
        left = exact(budget) - spent
        fits.append(0 if left < cost else int(left // cost))
    return Forecast(account.feature, account, rule, min(fits) if fits else None)


class Budget:
    """A party's budgets as a rule of its ledger: refuses what would pass one of them.

    Args:
        policy: The party's.
        features: The features that it releases in the federation at hand, by UUID.
    """

    def __init__(self, policy: Policy, features: Mapping[UUID, str]) -> None:
        self._policy = policy
        self._feature = features

    def __call__(self, before: Sequence[Release], new: Sequence[Release]) -> None:
        """Refuse releases that pass a budget.

        Raises:
            BudgetError: Naming every budget that would be passed, and by how much; from public
                facts alone.
        """
        known, after = accounts(before), accounts([*before, *new])
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
        for found, cap_1, cap_whole in (
            (after, "budget_1", "budget_whole"),
            (accounts(new), "max_loss_1", "max_loss_whole"),
        ):
            step = total(account.step for account in found.values())
            whole = total(account.whole for account in found.values())
            over += _over(f"all_features.{cap_1}", getattr(caps, cap_1), step)
            over += _over(f"all_features.{cap_whole}", getattr(caps, cap_whole), whole)
        # Only a new model is refused for what models have cost.
        if any(release.account == "model" for release in new):
            spent = model_epsilon([*before, *new])
            over += _over("models.budget_epsilon", self._policy.models.budget_epsilon, spent)
        if over:
            raise BudgetError(
                f"This release would pass the policy of {self._policy.party}: {'; '.join(over)}.",
                "Nothing was published. Its owner may raise the budget in policy.yaml, or end the "
                "retraining.",
            )


def model_epsilon(releases: Iterable[Release]) -> Fraction:
    """What all differentially private models have cost a row that is added or removed.

    Trained on the same rows, they add up; a row that is replaced costs twice as much. Models
    without a delta add their epsilons. As soon as there is one that was learnt from noisy sums, the
    curves of all are added instead, and turned into epsilon once, at `model_delta`.

    Args:
        releases: Of one party.
    """
    models = [release for release in releases if release.account == "model"]
    delta = model_delta(models)
    if not delta:
        return sum((Fraction(repr(m.epsilon)) for m in models if m.epsilon), Fraction(0))
    curves = (m.curve.values if m.curve else renyi.pure(m.epsilon or 0.0) for m in models)
    return Fraction(repr(renyi.epsilon_of(renyi.composed(curves), delta)))


def model_delta(releases: Iterable[Release]) -> float:
    """The delta that goes with `model_epsilon`: the least that was declared, 0 without any.

    Args:
        releases: Of one party.
    """
    return min((release.curve.delta for release in releases if release.curve), default=0.0)


def exact(loss: float | str) -> Loss:
    """A published loss as the number that it is."""
    return math.inf if loss == "inf" else Fraction(loss)


def total(losses: Iterable[Loss]) -> Loss:
    """Their sum, exactly."""
    return sum(losses, Fraction(0))


def _over(name: str, cap: float | None, asked: Loss) -> list[str]:
    if cap is None or asked <= Fraction(cap):
        return []
    told = "infinite" if asked == math.inf else f"{float(asked):.4f}"
    return [f"{name} is {cap:g}, and would be {told}"]
