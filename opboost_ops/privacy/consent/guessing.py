"""How much better a receiver can guess values after a release, computed from the exact channel.

The attacker is optimal: it knows the mechanism and the prior, and decides by Bayes' rule. Its
success is exact, without sampling:

    before  max over x of prior(x)
    after   sum over y of max over x of prior(x) Pr[y | x]

A nominal feature is released as one bit per category. Given the bits y, the likelihood of category
c is Q(y) r(y_c), where Q(y) is the probability of y if all bits were clear, r(1) = p / q and
r(0) = (1 - p) / (1 - q), with p = Pr[1 | set] and q = Pr[1 | clear]. So ``after`` is the
expectation under Q of the maximum of independent numbers prior(c) r(y_c), each of two values.

A feature with a missing bit has one more value: missing. Its response is that of the fill. Value
and bit are guessed together.

The prior is uniform by default; columns count as independent. In addition, the worst priors over
any two and any three values are evaluated, from the channel's integer counts.

The gain of a guess is after - before. As long as one value remains the most probable, `before` is
linear in the prior and `after` is convex, so the gain is greatest at a corner of these priors: a
uniform prior over some of the values. So the worst prior over any two values is uniform over two,
and that over any three values is uniform over three or two. Then `after` is, over k values, the sum
over y of the largest Pr[y | x], divided by k.

For three values a, b, c this sum is at most 1 + TV(a, b) + TV(b, c), for any choice of the middle
value b. This bound prunes most triples of a large domain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from opboost_ops.mechanisms.channel import TOTAL, Channel

#: From this success rate on, a release protects little.
LITTLE = 0.5

#: Number of other records in the linking simulation, and of known records to look for.
OTHERS, KNOWN = 999, 1_000

#: Smaller differences are rounding errors.
_ROUNDING = 1e-12

#: Maximum number of a large domain's values that planning compares.
_MAX_COMPARED = 256


@dataclass(frozen=True)
class Guess:
    """A receiver's guess of one value.

    Attributes:
        values: Number of possible values.
        before: Success of the best guess without the release.
        after: Success of the best guess with it.
        odds: Maximum factor by which the release changes the odds of any two values.
        of_two: Success of the best guess between the worst two values, equally likely; no other
            prior over two values has a larger gain.
        of_three: The same for three values; None if there are only two.
        missing: Whether one of the values is "missing".
    """

    values: int
    before: float
    after: float
    odds: float
    of_two: float
    of_three: float | None = None
    missing: bool = False

    @property
    def gain(self) -> float:
        """Factor by which the release increases the odds of a correct guess."""
        if self.after >= 1:
            return math.inf
        return self.after / (1 - self.after) * (1 - self.before) / self.before

    @property
    def protects_little(self) -> bool:
        """True if most values are guessed, and the release at least doubles the odds of it."""
        return self.after >= LITTLE and self.gain >= 2


@dataclass(frozen=True)
class Law:
    """The probability law of one released feature.

    Attributes:
        channel: Channel of a value, inputs x outputs; for a nominal feature, that of each bit.
        categories: Number of categories of a nominal feature; None for other features.
        prior: Probabilities of the values, shape (values,); uniform by default.
        missing: Channel of its missing bit; None without one.
        fill: Index of the value that replaces a missing one; categories are interchangeable.
    """

    channel: Channel
    categories: int | None = None
    prior: tuple[float, ...] | None = None
    missing: Channel | None = None
    fill: int = 0

    @property
    def weights(self) -> np.ndarray:
        """The prior, float64, shape (values,); "missing" is the last value."""
        count = (self.categories or len(self.channel.inputs)) + (self.missing is not None)
        if self.prior is None:
            return np.full(count, 1 / count)
        prior = np.asarray(self.prior, dtype=np.float64)
        return np.asarray(prior / prior.sum())

    def guess(self, loss: float) -> Guess:
        """Return a receiver's best guess.

        Args:
            loss: loss(R - L) of the release, including missing bit and private edges.
        """
        prior, law = self.weights, self.channel.probabilities()
        places, bits = self._states()
        after = 0.0
        for chances in bits:
            best = np.zeros(places.max() + 1)
            np.maximum.at(best, places, prior * chances)
            if self.categories is None:
                after += float((law * best[:, None]).max(axis=0).sum())
            else:
                after += _expected_maximum(law, best)
        odds = math.exp(loss) if loss < 700 else math.inf
        return Guess(
            len(prior),
            float(prior.max()),
            min(1.0, after),
            odds,
            *_among_few(self),
            self.missing is not None,
        )

    def exposures(self) -> np.ndarray:
        """Return the information of a release about each value, in nats; 0 for categories."""
        if self.categories is not None:
            return np.zeros(len(self.weights))
        law = self._joint()
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(law / (self.weights @ law))
            return np.asarray(np.where(law > 0, law * ratios, 0).sum(axis=1))

    def scores(self, values: np.ndarray, others: int, random: Any) -> np.ndarray:
        """Simulate releases, and return log-likelihood ratios of them for known values.

        Args:
            values: The known values, integers from 0.
            others: Number of other people's releases.
            random: A numpy generator; its numbers are never released.

        Returns:
            ln(Pr[y | x] / Pr[y]), shape (known, 1 + others): for the value's own release, and for
            those of others.
        """
        prior, count = self.weights, len(values)
        all_values = np.concatenate([values, random.choice(len(prior), size=others, p=prior)])
        if self.categories is None:
            law = self._joint()
            cumulated = law.cumsum(axis=1)
            at = random.random(len(all_values)) * cumulated[all_values, -1]
            outputs = (cumulated[all_values] < at[:, None]).sum(axis=1)
            with np.errstate(divide="ignore"):
                ratios = np.log(law / (prior @ law))
            own = ratios[values, outputs[:count]]
            # Gathers one row per value, then one per known value: far fewer look-ups.
            return np.column_stack([own, ratios[:, outputs[count:]][values]])
        law, (places, chances) = self.channel.probabilities(), self._states()
        set_ = np.full((len(all_values), self.categories), law[0, 1])
        set_[np.arange(len(all_values)), places[all_values]] = law[1, 1]
        bits = random.random(set_.shape) < set_
        ratio = np.where(bits, law[1, 1] / law[0, 1], law[1, 0] / law[0, 0])[:, places]
        absent = random.random(len(all_values)) < chances[-1, all_values]
        ratio = ratio * chances[np.where(absent, -1, 0)]
        logs = np.log(ratio / (ratio @ prior)[:, None])
        own = logs[np.arange(count), values]
        return np.column_stack([own, logs[count:, values].T])

    def _states(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the value that each one is released as, and Pr[missing bit | it]."""
        count = len(self.weights)
        if self.missing is None:
            return np.arange(count), np.ones((1, count))
        present, absent = self.missing.probabilities()
        chances = np.repeat(present[:, None], count, axis=1)
        chances[:, -1] = absent
        return np.append(np.arange(count - 1), self.fill), chances

    def counts(self) -> tuple[list[list[int]], int]:
        """Return integer rows of the joint law of response and missing bit, and their sum.

        For a nominal feature, up to four categories represent all: categories are interchangeable,
        and bits of others do not distinguish these.
        """
        total, rows = TOTAL, [list(row) for row in self.channel.counts]
        if self.categories is not None:
            shown = min(self.categories, 4)
            clear, set_ = self.channel.counts
            rows = [
                [
                    math.prod(
                        (set_ if at == category else clear)[bit] for at, bit in enumerate(bits)
                    )
                    for bits in product((0, 1), repeat=shown)
                ]
                for category in range(shown)
            ]
            total = TOTAL**shown
        if self.missing is None:
            return rows, total
        present, absent = self.missing.counts
        bits = [(row, present) for row in rows] + [(rows[self.fill], absent)]
        joint = [[count * bit for count in row for bit in missing] for row, missing in bits]
        return joint, total * TOTAL

    def _joint(self) -> np.ndarray:
        """Return Pr[response, missing bit | value], shape (values, bits x outputs)."""
        places, chances = self._states()
        law = self.channel.probabilities()[places]
        return np.concatenate([law * bit[:, None] for bit in chances], axis=1)


@lru_cache(maxsize=64)
def _among_few(law: Law) -> tuple[float, float | None]:
    """Return the best guess's success among two and three values, under the worst priors."""
    rows, total = law.counts()
    pair, *triples = worst_values(np.array(rows, dtype=np.float64) / total)
    three = [even_success([rows[at] for at in triple], total) for triple in triples]
    return even_success([rows[at] for at in pair], total), three[0] if three else None


@dataclass(frozen=True)
class RecordGuess:
    """A receiver's guess of a whole record.

    Attributes:
        before, after: Success of guessing all its values.
        right_before, right_after: Expected number of columns guessed correctly.
        first: How often a known record's own release is the best match.
        first_error: Standard error of that simulated frequency.
        first_exposed: The same frequency for the most exposed 1 % of records.
        nearest: How often its own release is among the best 1 % of matches.
        among: Number of releases searched.
    """

    before: float
    after: float
    right_before: float
    right_after: float
    first: float
    first_error: float
    first_exposed: float
    nearest: float
    among: int


def guess_record(laws: Sequence[Law], guesses: Sequence[Guess]) -> RecordGuess:
    """Return a receiver's guess of a whole record, whose columns count as independent.

    Linking is simulated with 1,000 known records among 1,000 releases; all other figures are exact.

    Args:
        laws: Laws of all columns.
        guesses: The best guess of each column.
    """
    random = np.random.default_rng(0)  # noqa: TID251  A simulation; nothing is released.
    records = [random.choice(len(law.weights), size=100 * KNOWN, p=law.weights) for law in laws]
    exposures = sum(law.exposures()[values] for law, values in zip(laws, records, strict=True))
    most = np.argsort(-np.asarray(exposures), kind="stable")[:KNOWN]
    first, nearest = _linked(laws, [values[:KNOWN] for values in records], random)
    exposed, _ = _linked(laws, [values[most] for values in records], random)
    return RecordGuess(
        math.prod(guess.before for guess in guesses),
        math.prod(guess.after for guess in guesses),
        sum(guess.before for guess in guesses),
        sum(guess.after for guess in guesses),
        float(first.mean()),
        float(first.std() / math.sqrt(KNOWN)),
        float(exposed.mean()),
        float(nearest.mean()),
        1 + OTHERS,
    )


def _linked(
    laws: Sequence[Law], records: Sequence[np.ndarray], random: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the chances that a record's own release is the best match, and in the best 1 %."""
    scores = np.zeros((KNOWN, 1 + OTHERS))
    for law, values in zip(laws, records, strict=True):
        scores += law.scores(values, OTHERS, random)
    greater = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
    # Ties have no order, so each place among them is equally likely.
    equal = (scores[:, 1:] == scores[:, :1]).sum(axis=1)
    places = np.clip(((1 + OTHERS) / 100 - greater) / (1 + equal), 0, 1)
    return np.where(greater == 0, 1 / (1 + equal), 0), places


def _expected_maximum(law: np.ndarray, prior: np.ndarray) -> float:
    """Return E[max over c of prior(c) r(y_c)], with all bits drawn as if clear."""
    set_, clear = prior * law[1, 1] / law[0, 1], prior * law[1, 0] / law[0, 0]
    chance = float(law[0, 1])
    total, below = 0.0, 0.0
    for value in np.unique(np.concatenate([set_, clear])):
        at_most = np.where(set_ <= value, chance, 0) + np.where(clear <= value, 1 - chance, 0)
        until = float(np.prod(at_most))
        total, below = total + value * (until - below), until
    return float(total)


def worst_values(law: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Return the two values, and the three if there are three, for which a guess succeeds most.

    Args:
        law: Pr[y | x], shape (values, outputs), of at least two values.
    """
    distances = _distances(law)
    a, b = divmod(int(distances.argmax()), len(law))
    if len(law) < 3:
        return ((a, b),)
    best, triple = _with_third(law, a, b)
    for bound, first, second in _promising(distances, best):
        if bound <= best + _ROUNDING:
            break
        total, candidate = _with_third(law, first, second)
        if total > best:
            best, triple = total, candidate
    return (a, b), triple


def of_two(law: np.ndarray) -> float:
    """Return the success of the best guess between two values, out of at most `_MAX_COMPARED`.

    Args:
        law: Pr[y | x], shape (values, outputs), of at least two values.
    """
    compared = np.linspace(0, len(law) - 1, min(len(law), _MAX_COMPARED)).round().astype(int)
    return float(_distances(law[compared]).max() + 1) / 2


def even_success(counts: Sequence[Sequence[int]], total: int) -> float:
    """Return the success of the best guess under the uniform prior over some values.

    Args:
        counts: The channel's row of each value.
        total: Sum of each row.
    """
    return float(Fraction(sum(map(max, zip(*counts, strict=True))), total * len(counts)))


def _distances(law: np.ndarray) -> np.ndarray:
    """Return the total variation distances between values, shape (values, values)."""
    distances = np.zeros((len(law), len(law)))
    for first, row in enumerate(law[:-1]):
        apart = np.maximum(row, law[first + 1 :]).sum(axis=1) - 1
        distances[first, first + 1 :] = distances[first + 1 :, first] = apart
    return distances


def _with_third(law: np.ndarray, first: int, second: int) -> tuple[float, tuple[int, int, int]]:
    """Return the best third value for a pair, and the triple's sum of largest probabilities."""
    sums = np.maximum(np.maximum(law[first], law[second]), law).sum(axis=1)
    sums[[first, second]] = 0
    third = int(sums.argmax())
    return float(sums[third]), (first, second, third)


def _promising(distances: np.ndarray, best: float) -> list[tuple[float, int, int]]:
    """Return the farthest pairs of triples whose bound exceeds ``best``, by descending bound."""
    pairs = []
    for first, row in enumerate(distances):
        # Two of the three distances sum to more than best - 1, so the largest exceeds half of it.
        seconds = first + np.flatnonzero(row[first:] > (best - 1) / 2)
        rows, apart = distances[seconds], row[seconds][:, None]
        sums = np.where((rows <= apart) & (row <= apart), row + rows, 0)
        bounds = 1 + sums.max(axis=1, initial=0)
        for bound, second in zip(bounds.tolist(), seconds.tolist(), strict=True):
            if bound > best + _ROUNDING:
                pairs.append((bound, first, second))
    return sorted(pairs, reverse=True)
