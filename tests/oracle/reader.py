"""What left, read without the package: independent draws, their exact ratios, and the charges.

A draw is told by its response: the channels of the oracle have so many outputs that two draws are
hardly ever the same. The reader knows the integer tables, what was published, what the pins hold
and what the ledger says.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction

#: Pr[output | input] as integers, by input and output.
Channel = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class Sent:
    """What a run published of a person and a column.

    Attributes:
        run: The run's id.
        release: Which release it names.
        receiver: Who can read it.
        column: The raw column.
        declared: What it was declared as.
        person: Whose.
        response: The outputs, by released column.
        exact: The exact integers that routed answers may compare; empty where there are none.
        charged: What the column had been charged when it was published.
    """

    run: str
    release: str
    receiver: str
    column: str
    declared: str
    person: str
    response: tuple[int, ...]
    exact: tuple[int, ...]
    charged: Fraction


@dataclass
class Stated:
    """The party's own words after a history.

    Attributes:
        losses: Loss of each release that the ledger has charged.
        receivers: To whom each went.
        spent: Of each raw column, as the account says.
        entries: Sum of the ledger's entries, by raw column.
        pinned: Who has a pin, by release.
        forgotten: Who must have none.
        budget: Of each raw column.
        open: Releases that have not ended.
    """

    losses: Mapping[str, Fraction]
    receivers: Mapping[str, str]
    spent: Mapping[str, Fraction]
    entries: Mapping[str, Fraction]
    pinned: Mapping[str, frozenset[str]] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()
    budget: Fraction = Fraction(0)
    open: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """The reader's findings.

    Attributes:
        faults: Sentences; none where the promises are kept.
        worst: Largest exact loss of a person's column over what was charged for it; 1 where the
            bound is met.
    """

    faults: tuple[str, ...]
    worst: float


def read(
    sent: Sequence[Sent], stated: Stated, channels: Mapping[str, Sequence[Channel]]
) -> Verdict:
    """Compare what left with what was charged.

    Args:
        sent: Everything that was published, in its order.
        stated: The party's own account of it.
        channels: By declaration, a channel for each released column.
    """
    faults: list[str] = []
    draws: dict[tuple[str, str], dict[tuple[str, tuple[int, ...]], str]] = defaultdict(dict)
    declared: dict[str, str] = {}
    runs: dict[tuple[str, str], str] = {}
    exact: dict[tuple[str, str], tuple[int, ...]] = {}
    worst = 0.0
    for one in sent:
        if declared.setdefault(one.release, one.declared) != one.declared:
            faults.append(f"one release for {declared[one.release]} and {one.declared}")
        if runs.setdefault((one.run, one.column), one.release) in stated.open - {one.release}:
            faults.append("one run with two releases of a column")
        if one.release not in stated.losses:
            faults.append("a release that the ledger does not have")
            continue
        if stated.receivers[one.release] != one.receiver:
            faults.append("a release to another receiver")
        key = one.person, one.column
        draws[key].setdefault((one.declared, one.response), one.release)
        truth = _loss(draws[key], channels)
        if truth > _decimal(one.charged):
            faults.append("more left than had been charged at its publication")
        if one.exact and exact.setdefault((one.release, one.person), one.exact) != one.exact:
            faults.append("two exact values of one release")
    for (_, column), of in draws.items():
        per_release: dict[str, set[tuple[str, tuple[int, ...]]]] = defaultdict(set)
        for draw, release in of.items():
            per_release[release].add(draw)
        if any(len(responses) > 1 for responses in per_release.values()):
            faults.append("two draws in one release")
        charged = stated.spent.get(column, Fraction(0))
        truth = _loss(of, channels)
        if truth > _decimal(charged):
            faults.append("more left than was charged")
        elif charged:
            worst = max(worst, float(truth / _decimal(charged)))
    if dict(stated.spent) != {k: v for k, v in stated.entries.items() if k in stated.spent}:
        faults.append("the sum of the entries is another one than the account's")
    if any(spent > stated.budget for spent in stated.spent.values()):
        faults.append("over budget")
    for people in stated.pinned.values():
        if people & stated.forgotten:
            faults.append("a forgotten person has a pin")
    return Verdict(tuple(dict.fromkeys(faults)), worst)


def _loss(
    draws: Mapping[tuple[str, tuple[int, ...]], str], channels: Mapping[str, Sequence[Channel]]
) -> Decimal:
    """ln of the product of the draws' largest ratios between two inputs; never too large."""
    product = Fraction(1)
    for declared, response in draws:
        for channel, output in zip(channels[declared], response, strict=True):
            counts = [of[output] for of in channel.values()]
            product *= Fraction(max(counts), min(counts))
    with localcontext() as context:
        context.prec = 60
        ratio = Decimal(product.numerator) / Decimal(product.denominator)
        return ratio.ln() * (1 - Decimal(10) ** -40)


def _decimal(value: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return Decimal(value.numerator) / Decimal(value.denominator)
