"""Calibration of the noise on sums in horizontal learning, and each party's share of it.

Distributed differential privacy: every party adds Skellam noise to its integers before masking. At
least h = remaining - colluding parties are honest and stay, so each adds 1 / h of the variance that
(epsilon, delta) requires. The noise of further parties is surplus and is not removed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.rounds.protocol import Phase
from opboost_ops.learning.private.noise import MAX_MEAN
from opboost_ops.privacy.ledger import renyi
from opboost_ops.privacy.ledger.renyi import RenyiCurve


@dataclass(frozen=True)
class Release:
    """The sums that a phase releases, in rounds of the same kind.

    Attributes:
        phase: Name of the phase.
        rounds: Greatest number of rounds.
        l1: L1 sensitivity of the vector of one round, for a row that is added or removed.
        l2_squared: Squared L2 sensitivity, likewise.
        share: Share of the divergence for all rounds of the phase together.
        replaced: ``l1`` and ``l2_squared`` for a row that is replaced, which can be less than for
            two rows.
    """

    phase: Phase
    rounds: int
    l1: int
    l2_squared: int
    share: float
    replaced: tuple[int, int]


@dataclass(frozen=True)
class SumNoise:
    """The noise of a session and its privacy loss.

    Attributes:
        honest: h, the number of parties whose noise counts.
        means: Mean of a party's Poisson variables by phase; its noise has twice that variance.
        curve: Loss of the whole session for a row that is added or removed.
        replaced: Loss for a row that is replaced, at the same delta.
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
        """Return the standard deviation of the noise of a phase's sums.

        Args:
            phase: Name of the phase.
            parties: Number of parties that add noise.
        """
        return float((2 * parties * self.means[phase]) ** 0.5)

    def guarantee(self, parties: int) -> str:
        """Describe epsilon and delta of the session, towards some and towards all other parties.

        Args:
            parties: Number of parties that take part.
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


def calibrate(releases: Sequence[Release], honest: int, epsilon: float, delta: float) -> SumNoise:
    """Return the least noise that keeps a session within epsilon.

    Args:
        releases: All releases of the session.
        honest: h, at least 1.
        epsilon: Epsilon of the whole session, for a row that is added or removed.
        delta: Delta of the whole session.

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
        if max(candidate.means.values()) > MAX_MEAN:
            break
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        if noise(middle).curve.epsilon > epsilon:
            low = middle
        else:
            high = middle
    candidate = noise(high)
    if max(candidate.means.values()) > MAX_MEAN or candidate.curve.epsilon > epsilon:
        raise ConfigError(
            "The noise for this epsilon is out of range.", "Declare a greater epsilon."
        )
    return candidate


def _curve(
    releases: Sequence[Release],
    honest: int,
    means: Mapping[Phase, int],
    delta: float,
    moved: Callable[[Release], tuple[int, int]],
) -> RenyiCurve:
    """Return the loss of all releases for sensitivities given by ``moved``."""
    curves = (
        renyi.repeated(renyi.skellam(*moved(each), 2 * honest * means[each.phase]), each.rounds)
        for each in releases
    )
    return RenyiCurve(values=renyi.composed(curves), delta=delta)
