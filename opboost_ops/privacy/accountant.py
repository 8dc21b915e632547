"""What releases add up to, from public facts alone: worst cases, budgets, structure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from uuid import UUID

from opboost_ops.config.columns import MISSING
from opboost_ops.config.policy import FeatureRule, ModelBudget, Policy
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.model_account import account_of
from opboost_ops.privacy.structure import Structure
from opboost_ops.privacy.worst import Worst

#: A loss or a sum of losses, exactly; a float only where it is infinite.
Loss = Fraction | float


@dataclass
class Key:
    """What one charge of a column has cost under one noise key.

    Attributes:
        bit: Empty for the column's own values; else which bit of it, such as ``missing``.
        cells: Name of the noise key.
        receiver: Towards whom.
        draws: How many draws there were, and releases before draws were numbered.
        charged: How many different values these draws were charged for.
        worst: The public worst case after the last of them.
        most: The cap when the last draw was taken; none when absent.
        inputs: How many different values a cell can have.
        loss: Of one value.
    """

    bit: str
    cells: str
    receiver: str
    draws: int
    charged: int
    worst: Worst
    most: int | None
    inputs: int
    loss: LossCurve


@dataclass
class Account:
    """What one column has cost a person at worst.

    Every new draw counts as if each person's value had changed for it, until the cap on different
    values of a cell ends that: from outside it cannot be seen whose did. See `privacy.worst`.

    Attributes:
        feature: Its last known name.
        structure: What was ever disclosed exactly.
        keys: What makes up the sums, by bit and noise key, in the order of their last draws.
    """

    feature: str
    structure: Structure = field(default_factory=Structure)
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)

    def copy(self) -> "Account":
        """Another one that says the same, to which more can be added."""
        told = self.structure
        structure = Structure(set(told.edges), set(told.spans), told.missing)
        return replace(self, structure=structure, keys=dict(self.keys))

    @property
    def releases(self) -> int:
        """How many different draws there were of its values."""
        return sum(key.draws for key in self.keys.values() if not key.bit)

    @property
    def step(self) -> Loss:
        """Sum over its noise keys of the values charged x loss(1)."""
        return total(times(exact(key.loss.loss[0]), key.charged) for key in self.keys.values())

    @property
    def whole(self) -> Loss:
        """The same of loss(R - L)."""
        return total(times(exact(key.loss.loss[-1]), key.charged) for key in self.keys.values())

    @property
    def least_cell(self) -> float | None:
        """Width of the narrowest cell that exact disclosures leave; None without any."""
        return self.structure.least_cell


def accounts(releases: Iterable[Release]) -> dict[UUID, Account]:
    """What each column has cost so far.

    Cells are charged by draws. A training and a held-out artifact of one run are one draw, for
    they hold different people: what is stated is the maximum over people.

    Args:
        releases: Of one party.
    """
    found: dict[UUID, Account] = {}
    for release in releases:
        add(found, release)
    return found


def add(found: dict[UUID, Account], release: Release) -> None:
    """Charge a release.

    Args:
        found: The accounts so far, which grow.
        release: Of the same party.
    """
    if release.account == "exact" or release.column is None:
        return
    # By UUID, not by name: a renamed column is the same one, and is charged for both.
    account = found.setdefault(release.column, Account(""))
    account.feature, _, bit = (release.feature or "").partition("=")
    account.structure.add(release.edges, release.span, discloses_missing(release))
    draw, loss = release.draw, release.loss
    if draw is None or loss is None:
        return
    place = (bit, release.cells or "")
    before = account.keys.pop(place, None)
    account.keys[place] = Key(
        bit=bit,
        cells=release.cells or "",
        receiver=release.receiver,
        draws=stands_for(release) + (before.draws if before else 0),
        charged=draw.added + (before.charged if before else 0),
        worst=Worst(draw.worst, draw.base, draw.number),
        most=draw.most,
        inputs=draw.inputs,
        loss=loss,
    )


def stands_for(release: Release) -> int:
    """Of how many releases a draw is the account."""
    return 0 if release.draw is None or release.kind == "accepted" else release.draw.stands_for


def discloses_missing(release: Release) -> bool:
    """Whether a release tells exactly whose value is missing."""
    return release.account == "structural" and (release.feature or "").endswith(f"={MISSING}")


@dataclass(frozen=True)
class Totals:
    """What a party's releases have come to.

    Attributes:
        accounts: By column.
        models: The lines of differentially private models and metrics, oldest first.
    """

    accounts: Mapping[UUID, Account] = field(default_factory=dict)
    models: Sequence[Release] = ()

    def with_releases(self, new: Sequence[Release]) -> "Totals":
        """The totals after more releases.

        Args:
            new: Of the same party.
        """
        after = {uuid: account.copy() for uuid, account in self.accounts.items()}
        for release in new:
            add(after, release)
        models = [release for release in new if release.account == "model"]
        return Totals(after, (*self.models, *models))


def totals(releases: Sequence[Release]) -> Totals:
    """What releases come to.

    Args:
        releases: Of one party, oldest first.
    """
    return Totals().with_releases(releases)


@dataclass(frozen=True)
class Forecast:
    """What is left of a column's budgets under its present declaration and cap.

    Attributes:
        retrainings: How many more retrainings on changed data fit; None where they never end.
        step: What loss(1) comes to if there is no end of them; None where nothing bounds it.
        whole: The same of loss(R - L).
        frozen: Whether no further draw under the present noise keys costs anything.
    """

    feature: str
    account: Account
    rule: FeatureRule
    retrainings: int | None
    step: Loss | None
    whole: Loss | None
    frozen: bool

    @property
    def lasts(self) -> bool:
        """Whether there are budgets, and they allow retrainings without end."""
        budgets = (self.rule.budget_1, self.rule.budget_whole)
        return self.retrainings is None and budgets != (None, None)


def forecast(account: Account, rule: FeatureRule) -> Forecast:
    """How many more retrainings under the present noise keys fit, exactly.

    With ``max_changes`` in force the account ends at a height that no further draw passes: where
    the budgets allow that height, there is no end of retrainings.

    Args:
        account: What the column has cost.
        rule: The policy's.
    """
    present: dict[str, Key] = {key.bit: key for key in account.keys.values()}
    left = {bit: key.worst.steps_left(rule.max_changes, key.inputs) for bit, key in present.items()}
    ends: list[Loss] = []
    fits: list[int] = []
    for budget, spent, end in (
        (rule.budget_1, account.step, 0),
        (rule.budget_whole, account.whole, -1),
    ):
        costs = {bit: exact(key.loss.loss[end]) for bit, key in present.items()}
        ends.append(total([spent, *(times(costs[bit], left[bit]) for bit in present)]))
        if budget is None or ends[-1] <= Fraction(budget):
            continue
        fits.append(_fits(Fraction(budget) - spent, [(costs[bit], left[bit]) for bit in present]))
    bounded = rule.max_changes is not None and bool(present)
    return Forecast(
        account.feature,
        account,
        rule,
        min(fits, default=None),
        ends[0] if bounded else None,
        ends[1] if bounded else None,
        bool(present) and not any(left.values()),
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
        later: Sums of loss(1) and loss(R - L) that must be left over, see `privacy.pilot`.
    """

    def __init__(
        self,
        policy: Policy,
        features: Mapping[UUID, str],
        later: tuple[Loss, Loss] = (Fraction(0), Fraction(0)),
    ) -> None:
        self._policy = policy
        self._feature = features
        self._later = later

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
        # Where nothing is drawn again, what follows the pilot may be among what was charged.
        drawn = any(release.draw is not None for release in new)
        later = self._later if drawn else (Fraction(0), Fraction(0))
        for name, step, whole in (
            ("budget", *_sums([later, *((a.step, a.whole) for a in after.values())])),
            ("max_loss", *_at_once(new)),
        ):
            over += _over(f"all_features.{name}_1", getattr(caps, f"{name}_1"), step)
            over += _over(f"all_features.{name}_whole", getattr(caps, f"{name}_whole"), whole)
        # Only a new model is refused for what models have cost.
        if any(release.account == "model" for release in new):
            over += _over_models(self._policy.model_budget, summed.models)
        if over:
            pilot = ""
            if any(later):
                near, far = (f"{float(loss):.4g}" for loss in later)
                pilot = (
                    f" This is a pilot: of these sums, loss(1) of {near} and loss(R - L) of {far} "
                    "are for the release that follows it."
                )
            raise BudgetError(
                f"This release would exceed the privacy budget of {self._policy.party}: "
                f"{'; '.join(over)}."
                f"{pilot}",
                "Nothing was published. Its owner may raise the budget in policy.yaml, or end the "
                "retraining.",
            )


@lru_cache(maxsize=4096)
def exact(loss: float | str) -> Loss:
    """A published loss as the number that it is."""
    return math.inf if loss == "inf" else Fraction(loss)


def total(losses: Iterable[Loss]) -> Loss:
    """Their sum, exactly."""
    return sum(losses, Fraction(0))


def times(loss: Loss, count: int) -> Loss:
    """A loss so many times; none of an infinite one is nothing."""
    return loss if count == 1 else loss * count if count else Fraction(0)


def _at_once(new: Sequence[Release]) -> tuple[Loss, Loss]:
    """What one value of each of a release's columns costs together, apart from all other costs."""
    curves = {(r.column, (r.feature or "").partition("=")[2]): r.loss for r in new if r.loss}
    return _sums((exact(curve.loss[0]), exact(curve.loss[-1])) for curve in curves.values())


def _sums(ends: Iterable[tuple[Loss, Loss]]) -> tuple[Loss, Loss]:
    pairs = list(ends)
    return total(step for step, _ in pairs), total(whole for _, whole in pairs)


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
