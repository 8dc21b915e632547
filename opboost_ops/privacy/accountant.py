"""What releases add up to, from public facts alone: worst cases, budgets, structure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from uuid import UUID

from opboost_ops.config.columns import MISSING
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.structure import Structure
from opboost_ops.privacy.worst_case import CellBound

#: A loss or a sum of losses, exactly; a float only where it is infinite.
Loss = Fraction | float


@dataclass
class Key:
    """What one charge of a column has cost under one noise key.

    Attributes:
        bit: Empty for the column's own values; else which bit of it, such as ``missing``.
        cells: Name of the noise key.
        receiver: Towards whom.
        federation: Whose last draw it was.
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
    federation: str
    draws: int
    charged: int
    worst: CellBound
    most: int | None
    inputs: int
    loss: LossCurve


@dataclass
class Account:
    """What one column has cost a person at worst.

    Every new draw counts as if each person's value had changed for it, until the cap on different
    values of a cell ends that: from outside it cannot be seen whose did. See `privacy.worst_case`.

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
        federation=release.federation,
        draws=stands_for(release) + (before.draws if before else 0),
        charged=draw.added + (before.charged if before else 0),
        worst=CellBound(draw.worst, draw.base, draw.number),
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
