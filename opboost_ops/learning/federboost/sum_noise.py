"""How much noise the sums of horizontal learning need, and what a party adds of it.

Distributed differential privacy: every party adds Skellam noise to its integers before they are
masked. At least h = remaining - colluding parties are honest and stay, so each adds 1 / h of the
variance that (epsilon, delta) takes; what the others add is surplus, and never removed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.rounds.protocol import Phase
from opboost_ops.learning.private.noise import GREATEST
from opboost_ops.privacy.ledger import renyi
from opboost_ops.privacy.ledger.renyi import RenyiCurve


@dataclass(frozen=True)
class Release:
    """Sums that are released in one phase, in rounds of the same kind.

    Attributes:
        phase: Its name.
        rounds: How many there are at most.
        l1: By how much one row changes the vector of one round at most: sum of absolute changes.
        l2_squared: The same, sum of squared changes.
        share: Of the divergence, how much goes to all its rounds together.
        replaced: l1 and l2_squared of a row that is replaced by another one: it may move fewer
            numbers, or some of them less, than two rows do.
    """

    phase: Phase
    rounds: int
    l1: int
    l2_squared: int
    share: float
    replaced: tuple[int, int]


@dataclass(frozen=True)
class SumNoise:
    """The noise of one session.

    Attributes:
        honest: h, of how many parties the noise is counted.
        means: By phase, the mean of a party's Poisson numbers: its noise has twice that variance.
        curve: What the whole session costs a row that is added or removed.
        replaced: The same of a row that is replaced by another one, at the same delta.
        pooled: `curve` towards all other parties together, who subtract their own noise.
        pooled_replaced: `replaced` towards all other parties together.
    """

    honest: int
    means: dict[Phase, int]
    curve: RenyiCurve
    replaced: RenyiCurve
    pooled: RenyiCurve
    pooled_replaced: RenyiCurve

    def deviation(self, phase: Phase, parties: int) -> float:
        """Standard deviation of a sum's noise, where so many parties added theirs.

        Args:
            phase: Of the sum.
            parties: How many.
        """
        return float((2 * parties * self.means[phase]) ** 0.5)

    def guarantee(self, parties: int) -> str:
        """The session's epsilon and delta in words, towards some and towards all other parties.

        Args:
            parties: How many take part.
        """
        pooling, rest = parties - self.honest, parties - 1
        within = (
            f"(epsilon {self.curve.epsilon:.3g}, delta {self.curve.delta:g}) for a row added or "
            f"removed, epsilon {self.replaced.epsilon:.3g} for a row replaced"
        )
        if self.honest == 1:
            others = "the other party is" if rest == 1 else f"all {rest} other parties are"
            return f"{within}, also where {others} curious"
        added, replaced = self.pooled.epsilon, self.pooled_replaced.epsilon
        return (
            f"{within}, if at most {pooling} of {parties} parties pool what they know or omit "
            f"their noise; epsilon {added:.3g} and {replaced:.3g} if all {rest} other parties do"
        )


def calibrated(releases: Sequence[Release], honest: int, epsilon: float, delta: float) -> SumNoise:
    """The least noise that keeps a session within epsilon.

    Args:
        releases: All that leaves.
        honest: h, at least 1.
        epsilon: Of the whole session, for a row that is added or removed.
        delta: Its delta.

    Raises:
        ConfigError: The noise would be out of range.
    """

    def noise(factor: float) -> SumNoise:
        means = {
            each.phase: max(1, ceil(factor * each.rounds * each.l2_squared / each.share / honest))
            for each in releases
        }

        def curves(counted: int) -> tuple[RenyiCurve, RenyiCurve]:
            once = _curve(releases, counted, means, delta, lambda each: (each.l1, each.l2_squared))
            return once, _curve(releases, counted, means, delta, lambda each: each.replaced)

        return SumNoise(honest, means, *curves(honest), *curves(1))

    low, high = 2.0**-40, 1.0
    while (candidate := noise(high)).curve.epsilon > epsilon:
        high *= 2
        if max(candidate.means.values()) > GREATEST:
            break
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        if noise(middle).curve.epsilon > epsilon:
            low = middle
        else:
            high = middle
    candidate = noise(high)
    if max(candidate.means.values()) > GREATEST or candidate.curve.epsilon > epsilon:
        raise ConfigError(
            "The noise that this epsilon takes is out of range.", "Declare a greater epsilon."
        )
    return candidate


def _curve(
    releases: Sequence[Release],
    honest: int,
    means: Mapping[Phase, int],
    delta: float,
    moved: Callable[[Release], tuple[int, int]],
) -> RenyiCurve:
    """The cost of all releases where each moves by sums of absolute and squared changes."""
    curves = (
        renyi.repeated(renyi.skellam(*moved(each), 2 * honest * means[each.phase]), each.rounds)
        for each in releases
    )
    return RenyiCurve(values=renyi.composed(curves), delta=delta)
