"""Ranks mechanisms by how much of the order they preserve at an equal guess rate.

Mechanisms of equal loss across the domain differ in how well values can be guessed: on ten values
at a loss of 4.5, generalised randomised response discloses 91 % of all values, a designed channel
37 %.
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
    """Return the order of two values that are randomised independently.

    Args:
        channel: Any channel; its outputs need not be ascending.

    Returns:
        Two float64 arrays of shape (|D|, |D|): at [i, j], the probability that the output of
        input i exceeds that of input j, and the probability that both are equal.
    """
    distinct, place = np.unique(channel.outputs, return_inverse=True)
    table = np.zeros((len(channel.inputs), len(distinct)))
    np.add.at(table.T, place, channel.probabilities().T)
    below = np.cumsum(table, axis=1) - table
    return table @ below.T, table @ table.T


def expected_weighted_kendall(marginal: np.ndarray, channel: Channel) -> float:
    """Return the expected weighted Kendall coefficient of a release.

    It is the ratio of the expected sum over pairs to the sum of weights, for rows drawn from the
    marginal: the limit of a release's coefficient as the number of rows grows.

    Args:
        marginal: Number or share of rows with each input; shape (|D|,).
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

#: Above this many values, fewer partitions and alphas are tried: each table costs |D|^2 steps.
LARGE = 32

#: Number of designed channels tried for one guess rate.
_DESIGNS = 7

#: Candidates use at least this share of a cap, unless rounding epsilon down leaves less.
CLOSE = 0.995


@dataclass(frozen=True)
class Caps:
    """A party's caps on one feature; None means no cap.

    Attributes:
        step: Cap on loss(1), a change by one step of the domain.
        whole: Cap on loss(R - L), a change across the domain.
        guess: Cap on the share of values that the best attack guesses, under a uniform prior.
        of_two: Cap on the same share if a person has one of two values, for the worst two values.
    """

    step: float | None = None
    whole: float | None = None
    guess: float | None = None
    of_two: float | None = None

    def __post_init__(self) -> None:
        caps = [cap for cap in (self.step, self.whole) if cap is not None]
        if not all(isinstance(cap, Real) and 0 < cap < math.inf for cap in caps):
            raise ConfigError("A cap on a loss must be a finite number above 0.")
        rates = [rate for rate in (self.guess, self.of_two) if rate is not None]
        if not all(isinstance(rate, Real) and 0 < rate <= 1 for rate in rates):
            raise ConfigError("A cap on guesses must be a share above 0 and at most 1.")

    def __str__(self) -> str:
        rates = {"guessed right": self.guess, "of two": self.of_two}
        losses = {"loss(1)": self.step, "loss(R-L)": self.whole}
        words = [f"{name} at most {100 * rate:.1f} %" for name, rate in rates.items() if rate]
        words += [f"{name} at most {cap:.4g}" for name, cap in losses.items() if cap]
        return ", ".join(words)


@dataclass(frozen=True)
class Candidate:
    """A mechanism with the largest epsilon that the caps allow, and its losses.

    Attributes:
        mechanism: The mechanism with its parameters.
        curve: Its exact loss curve, which satisfies the caps.
        guess: Share of values that the best attack guesses; see `guess_rate`.
        of_two: The same between two values; see `guessing.of_two`.
    """

    mechanism: Mechanism
    curve: LossCurve
    guess: float
    of_two: float

    @classmethod
    def of(cls, mechanism: Mechanism, domain: Domain) -> "Candidate":
        """Evaluate a mechanism on a domain."""
        channel = mechanism.channel(domain)
        two = of_two(channel.probabilities())
        return cls(mechanism, loss_curve(mechanism, domain), guess_rate(channel), two)


def candidates(
    domain: Domain, caps: Caps, progress: Callable[[int, int], None] | None = None
) -> list[Candidate]:
    """Fit every mechanism and parameter to the caps, with its largest epsilon.

    Local-map is excluded: it discloses partitions, which no finite cap allows.

    Args:
        domain: Domain of the federation.
        caps: The party's caps.
        progress: Called with the number of mechanisms done and their total.

    Returns:
        The mechanisms that satisfy the caps with an epsilon of at least 0.001.
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
    """Add the declared mechanism to the candidates if it satisfies the caps.

    Args:
        declared: The mechanism of the federation file.
        fitted: Candidates from `candidates`.
        domain: Domain of the column.
        caps: The party's caps.
    """
    others = [each for each in fitted if each.mechanism != declared.mechanism]
    fits = _keeps_rates(declared.mechanism.channel(domain), caps) and _keeps(declared.curve, caps)
    return [declared, *others] if fits else others


def rank(
    fitted: Sequence[Candidate], domain: Domain, marginal: np.ndarray
) -> list[tuple[float, Candidate]]:
    """Rank candidates by how much of a feature's order they preserve.

    Args:
        fitted: Candidates from `candidates`.
        domain: Domain of the federation.
        marginal: Number of rows with each value, shape (|D|,).

    Returns:
        Expected weighted Kendall coefficient and candidate, best first.
    """
    scored = [(expected_weighted_kendall(marginal, c.mechanism.channel(domain)), c) for c in fitted]
    return sorted(scored, key=lambda pair: -pair[0])


def designed_under(domain: Domain, caps: Caps) -> Designed | None:
    """Design a channel for both caps; None if the cap on loss(R - L) is not binding, or on failure.

    Args:
        domain: Domain of the channel.
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
    """Yield constructors of mechanisms that take only epsilon."""
    yield from (GlobalMap, Geometric, GeneralisedResponse, Piecewise)
    yield from (partial(BucketResponse, buckets=q) for q in (2, 4, 8, 16, 32) if q < domain.size)
    large = domain.size > LARGE
    thetas = (domain.size // 10, domain.size // 5) if large else (2, 3, 4, 5, 10, 20)
    alphas = ALPHAS[::3] if large else ALPHAS
    for theta in thetas:
        if theta < domain.size:
            yield from (partial(AdjMap, theta=theta, alpha=alpha) for alpha in alphas)


def _fit(make: Callable[..., Mechanism], domain: Domain, caps: Caps) -> Candidate | None:
    # Losses are nearly proportional to epsilon, so a few proportional corrections suffice.
    epsilon = 1.0
    for _ in range(8):
        used = _use(make(epsilon=epsilon).channel(domain), caps)
        if CLOSE <= used <= 1:
            break
        epsilon = min(max(epsilon / used * (1 + CLOSE) / 2, 1e-3), 1000.0)
    # The result is exact, and rounded down to three digits.
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
    """Return the share of values that the best attack guesses, under a uniform prior."""
    return float(channel.probabilities().max(axis=0).sum() / len(channel.inputs))


def _designed_at(domain: Domain, caps: Caps) -> Designed | None:
    """Design a channel for the cap on loss(R - L), with the largest loss(1) of the guess rate."""
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
    """Return the largest share of a cap that is used, in floating point."""
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
    """Round a positive number down to a number of significant digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.{digits + 3}g}")
