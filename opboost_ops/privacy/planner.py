"""How much of the order a mechanism keeps, and which one keeps most at one guess rate.

Mechanisms of equal loss across the domain are not guessed equally well: on ten values at a loss of
4.5, generalised randomised response gives away 91 % of all values, a designed channel 37 %.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    Designed,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    Mechanism,
    Piecewise,
)
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.designed import MOST_DESIGNED
from opboost_ops.mechanisms.geometric import LEAST_EPSILON
from opboost_ops.privacy.consent.guessing import of_two
from opboost_ops.privacy.design import design
from opboost_ops.privacy.loss import LossCurve, loss_curve


def pair_order(channel: Channel) -> tuple[np.ndarray, np.ndarray]:
    """The order of two values after each is randomised by itself.

    Args:
        channel: Any channel; its outputs need not rise.

    Returns:
        Two float64 arrays of shape (|D|, |D|): at [i, j] the probability that the output of
        input i is greater than the output of input j, and that both are equal.
    """
    distinct, place = np.unique(channel.outputs, return_inverse=True)
    table = np.zeros((len(channel.inputs), len(distinct)))
    np.add.at(table.T, place, channel.probabilities().T)
    below = np.cumsum(table, axis=1) - table
    return table @ below.T, table @ table.T


def expected_weighted_kendall(marginal: np.ndarray, channel: Channel) -> float:
    """The weighted Kendall coefficient that a release may be expected to have.

    The ratio of the expected sum over pairs to the sum of weights, for rows drawn from the
    marginal: what the coefficient of a release tends to as rows grow.

    Args:
        marginal: How many rows, or which share of them, have each input; shape (|D|,).
        channel: The mechanism's channel.
    """
    greater, _ = pair_order(channel)
    weight = np.asarray(marginal, dtype=np.float64)
    present = np.flatnonzero(weight > 0)
    ranks = np.arange(len(present))
    distance = np.abs(ranks[:, None] - ranks[None, :])
    pairs = np.outer(weight[present], weight[present]) * distance
    if pairs.sum() == 0:
        return 1.0
    sign = np.sign(ranks[:, None] - ranks[None, :])
    net = (greater - greater.T)[np.ix_(present, present)] * sign
    return float((pairs * net).sum() / pairs.sum())


ALPHAS = (0.4, 0.6, 0.8, 1.0, 2.0, 5.0, 10.0)

#: Above this many values fewer partitions and alphas are tried: each table costs |D|^2 steps.
LARGE = 32

#: Designed channels that are tried for one guess rate.
_DESIGNS = 7

#: Candidates use at least this share of a cap, unless rounding epsilon down leaves less.
CLOSE = 0.995


@dataclass(frozen=True)
class Caps:
    """A party's caps on one feature; None where there is none.

    Attributes:
        step: On loss(1), a move by one step of the domain.
        whole: On loss(R - L), a move across the domain.
        guess: On the share of values that the best attack guesses right, all equally likely before.
        of_two: The same where a person has one of two values, the worst ones.
    """

    step: float | None = None
    whole: float | None = None
    guess: float | None = None
    of_two: float | None = None

    def __post_init__(self) -> None:
        caps = [cap for cap in (self.step, self.whole) if cap is not None]
        if not all(isinstance(cap, Real) and 0 < cap < math.inf for cap in caps):
            raise ConfigError("A cap on a loss is a number above 0, and not infinite.")
        rates = [rate for rate in (self.guess, self.of_two) if rate is not None]
        if not all(isinstance(rate, Real) and 0 < rate <= 1 for rate in rates):
            raise ConfigError("A cap on guesses is a share: above 0, at most 1.")

    def __str__(self) -> str:
        rates = {"guessed right": self.guess, "of two": self.of_two}
        losses = {"loss(1)": self.step, "loss(R-L)": self.whole}
        words = [f"{name} at most {100 * rate:.1f} %" for name, rate in rates.items() if rate]
        words += [f"{name} at most {cap:.4g}" for name, cap in losses.items() if cap]
        return ", ".join(words)


@dataclass(frozen=True)
class Candidate:
    """A mechanism with the largest epsilon that the caps allow, and what it costs.

    Attributes:
        mechanism: With its parameters.
        curve: Its exact loss curve, which keeps the caps.
        guess: The share of values that the best attack guesses right; see `guess_rate`.
        of_two: The same between two values; see `guessing.of_two`.
    """

    mechanism: Mechanism
    curve: LossCurve
    guess: float
    of_two: float

    @classmethod
    def of(cls, mechanism: Mechanism, domain: Domain) -> "Candidate":
        """A mechanism on a domain."""
        channel = mechanism.channel(domain)
        two = of_two(channel.probabilities())
        return cls(mechanism, loss_curve(mechanism, domain), guess_rate(channel), two)


def candidates(
    domain: Domain, caps: Caps, progress: Callable[[int, int], None] | None = None
) -> list[Candidate]:
    """Every mechanism and parameter with its largest epsilon under the caps.

    Local-map is not among them: it discloses partitions, which no finite cap allows.

    Args:
        domain: The federation's.
        caps: The party's.
        progress: Called with how many are done, and of how many.

    Returns:
        Those for which some epsilon of at least 0.001 keeps the caps.
    """
    makers = list(_makers(domain))
    by_loss = caps.guess is None and caps.of_two is None
    best = designed_under(domain, caps) if by_loss else _designed_at(domain, caps)
    fitted = [] if best is None else [Candidate.of(best, domain)]
    for done, make in enumerate(makers, start=1):
        candidate = _fit(make, domain, caps)
        if candidate is not None:
            fitted.append(candidate)
        if progress is not None:
            progress(done, len(makers))
    return fitted


def with_declared(
    declared: Candidate, fitted: Sequence[Candidate], domain: Domain, caps: Caps
) -> list[Candidate]:
    """Candidates and, where it keeps the caps, the declared mechanism.

    Args:
        declared: As it stands in the federation file.
        fitted: From `candidates`.
        domain: The column's.
        caps: The party's.
    """
    others = [each for each in fitted if each.mechanism != declared.mechanism]
    keeps = _keeps_rates(declared.mechanism.channel(domain), caps) and _keeps(declared.curve, caps)
    return [declared, *others] if keeps else others


def rank(
    fitted: Sequence[Candidate], domain: Domain, marginal: np.ndarray
) -> list[tuple[float, Candidate]]:
    """Candidates by the order that they may be expected to keep of a feature's values.

    Args:
        fitted: From `candidates`.
        domain: The federation's.
        marginal: How many rows have each value, shape (|D|,).

    Returns:
        Expected weighted Kendall coefficient and candidate, best first.
    """
    scored = [(expected_weighted_kendall(marginal, c.mechanism.channel(domain)), c) for c in fitted]
    return sorted(scored, key=lambda pair: -pair[0])


def designed_under(domain: Domain, caps: Caps) -> Designed | None:
    """A channel designed for both caps; None where the far one cuts nothing off, or none is found.

    Args:
        domain: Its domain.
        caps: The caps.
    """
    if caps.whole is None or domain.size > MOST_DESIGNED:
        return None
    step = min(caps.step or caps.whole, caps.whole)
    if step < LEAST_EPSILON or caps.whole >= step * (domain.size - 1):
        return None
    designed = design(domain, step, caps.whole)
    return None if designed is None else designed.mechanism


def _makers(domain: Domain) -> Iterator[Callable[..., Mechanism]]:
    """Mechanisms that lack their epsilon alone."""
    yield from (GlobalMap, Geometric, GeneralisedResponse, Piecewise)
    yield from (partial(BucketResponse, buckets=q) for q in (2, 4, 8, 16, 32) if q < domain.size)
    large = domain.size > LARGE
    thetas = (domain.size // 10, domain.size // 5) if large else (2, 3, 4, 5, 10, 20)
    alphas = ALPHAS[::3] if large else ALPHAS
    for theta in thetas:
        if theta < domain.size:
            yield from (partial(AdjMap, theta=theta, alpha=alpha) for alpha in alphas)


def _fit(make: Callable[..., Mechanism], domain: Domain, caps: Caps) -> Candidate | None:
    # Losses grow almost in proportion to epsilon, so a few corrections in proportion suffice.
    epsilon = 1.0
    for _ in range(8):
        over = _use(make(epsilon=epsilon).channel(domain), caps)
        if CLOSE <= over <= 1:
            break
        epsilon = min(max(epsilon / over * (1 + CLOSE) / 2, 1e-3), 1000.0)
    # What is offered is exact, and rounded down to three digits.
    for _ in range(60):
        epsilon = rounded_down(epsilon, 3)
        if epsilon < 1e-3:
            return None
        mechanism = make(epsilon=epsilon)
        curve = loss_curve(mechanism, domain)
        if _keeps(curve, caps) and _keeps_rates(mechanism.channel(domain), caps):
            return Candidate.of(mechanism, domain)
        epsilon *= 0.99
    return None


def guess_rate(channel: Channel) -> float:
    """The share of values that the best attack guesses right, all equally likely before."""
    return float(channel.probabilities().max(axis=0).sum() / len(channel.inputs))


def _designed_at(domain: Domain, caps: Caps) -> Designed | None:
    """A channel designed for the loss across the domain at the largest step of the guess rate."""
    if caps.whole is None:
        return None
    best, low, high = None, 0.0, min(caps.step or caps.whole, caps.whole)
    for _ in range(_DESIGNS if domain.size <= LARGE else 0):
        step = (low + high) / 2
        designed = designed_under(domain, Caps(rounded_down(step, 3), caps.whole))
        fits = designed is None or _keeps_rates(designed.channel(domain), caps)
        low, high = (step, high) if fits else (low, step)
        best = designed if fits and designed is not None else best
    return best


def _use(channel: Channel, caps: Caps) -> float:
    """The largest share of a cap that is used, in floats."""
    law = channel.probabilities()
    logs = np.log(law)
    step = float(np.abs(logs[1:] - logs[:-1]).max())
    whole = float((logs.max(axis=0) - logs.min(axis=0)).max())
    shares = [step / caps.step] if caps.step is not None else []
    shares += [whole / caps.whole] if caps.whole is not None else []
    if caps.guess is not None:
        blind = _log_odds(1 / len(law))
        gain = _log_odds(guess_rate(channel)) - blind
        shares.append(gain / max(_log_odds(caps.guess) - blind, 1e-12))
    if caps.of_two is not None:
        shares.append(_log_odds(of_two(law)) / max(_log_odds(caps.of_two), 1e-12))
    return max([*shares, 1e-12])


def _keeps_rates(channel: Channel, caps: Caps) -> bool:
    return _use(channel, Caps(guess=caps.guess, of_two=caps.of_two)) <= 1 + 1e-9


def _log_odds(share: float) -> float:
    return math.log(max(share, 1e-300)) - math.log(max(1 - share, 1e-300))


def _keeps(curve: LossCurve, caps: Caps) -> bool:
    pairs = ((curve.loss[0], caps.step), (curve.loss[-1], caps.whole))
    return all(cap is None or (loss != "inf" and loss <= cap) for loss, cap in pairs)


def rounded_down(value: float, digits: int) -> float:
    """A positive number of so many digits, at most as large."""
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.{digits + 3}g}")
