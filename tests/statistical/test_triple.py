"""The triple, on the real sampler: the claimed scale is accepted, 30 % less or more is not."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import chi2

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    Designed,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    Mechanism,
    MissingBit,
    Piecewise,
    UnaryEncoding,
    noise,
)
from opboost_ops.mechanisms.private_quantiles import draw, weights
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.design import design
from tests.laws import (
    adj_law,
    geometric_law,
    global_law,
    local_law,
    missing_law,
    piecewise_law,
    response_law,
    unary_law,
    uneven_law,
)

DRAWS = 100_000
P = 1e-20

#: A fixed secret makes the draws, and so the verdicts, the same at every run of the suite.
SECRET = b"statistical tests, public secret"


def released(
    mechanism: Mechanism | MissingBit, domain: Domain, value: int, column: int = 7
) -> np.ndarray:
    """What the real sampler releases for one input, over all persons.

    Of a one-hot row these are two bits as one number: twice the bit that is set plus the next.
    """
    values = np.full(DRAWS, value, dtype=np.int64)
    place = f"{mechanism}/{domain}/{value}/{column}"
    if isinstance(mechanism, UnaryEncoding):
        set_, clear = (
            randomise_bit(
                values, value + 2, bit, mechanism, noise.Words.seeded(SECRET, f"{place}/{bit}")
            )
            for bit in (value, value + 1)
        )
        return 2 * set_ + clear
    return randomise(values, mechanism, domain, noise.Words.seeded(SECRET, place))


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Pearson's chi-squared; cells of fewer than ten expected draws are pooled."""
    wanted = expected * observed.sum()
    if observed[wanted == 0].any():
        return 0.0
    order = np.argsort(wanted[wanted > 0])
    seen, wanted = observed[wanted > 0][order], wanted[wanted > 0][order]
    pooled = max(int(np.searchsorted(np.cumsum(wanted), 10)), int((wanted < 10).sum()) - 1)
    seen = np.append(seen[: pooled + 1].sum(), seen[pooled + 1 :])
    wanted = np.append(wanted[: pooled + 1].sum(), wanted[pooled + 1 :])
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return float(chi2.sf(statistic, len(seen) - 1))


#: No value of it as likely as another, so that one channel alone is the best.
PRIOR = np.array([3.0, 5.0, 8.0, 13.0, 11.0, 9.0, 14.0, 7.0, 4.0, 2.0])
FAR = 4.0


@cache
def best_channel(epsilon: float) -> np.ndarray:
    """Least expected |x - y| under min(epsilon t, epsilon FAR): all pairs, written out densely."""
    size = len(PRIOR)
    cells = np.arange(size * size).reshape(size, size)
    rows = []
    for x, other in itertools.permutations(range(size), 2):
        for y in range(size):
            row = np.zeros(size * size)
            row[cells[x, y]] = np.exp(-epsilon * min(abs(x - other), FAR))
            row[cells[other, y]] = -1
            rows.append(row)
    away = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    sums = np.kron(np.eye(size), np.ones(size))
    found = linprog(
        (PRIOR[:, None] * away).ravel(), np.array(rows), np.zeros(len(rows)), sums, np.ones(size)
    )
    return np.asarray(np.maximum(found.x, 0).reshape(size, size))


def designed_law(epsilon: float, domain: Domain, x: int) -> np.ndarray:
    law = best_channel(epsilon)[x - domain.lower]
    # Outputs that are not used: the solver's own zero.
    return np.where(law > 1e-9, law, 0.0) / law[law > 1e-9].sum()


def designed(epsilon: float, domain: Domain) -> Designed:
    """The channel that the library makes."""
    found = design(domain, epsilon, epsilon * FAR, "absolute", PRIOR.tolist())
    assert found is not None
    return found.mechanism


@dataclass(frozen=True)
class Case:
    """A mechanism, its law, and an input from which 100,000 draws tell 30 % apart."""

    mechanism: Mechanism | MissingBit
    law: Callable[[float, Domain, int], np.ndarray]
    domain: Domain
    value: int

    def __str__(self) -> str:
        return f"{self.mechanism.label()}, {self.domain.size} values, x = {self.value}"


TEN, WIDE, BIT, TWO_BITS = Domain(1, 10), Domain(-20, 43), Domain(0, 1), Domain(0, 3)
CASES = [
    Case(mechanism, law, domain, value)
    for mechanism, law, domain, values in (
        *((GlobalMap(epsilon=e), global_law, TEN, (1, 4, 10)) for e in (0.64, 1.0, 2.56, 5.12)),
        *((GlobalMap(epsilon=e), global_law, WIDE, (-20, 9, 43)) for e in (0.08, 0.64, 5.12)),
        *((Geometric(epsilon=e), geometric_law, TEN, (1, 4, 10)) for e in (0.32, 1.0, 2.56)),
        *((Geometric(epsilon=e), geometric_law, WIDE, (-20, 9, 43)) for e in (0.08, 0.64, 2.56)),
        *((designed(e, TEN), designed_law, TEN, (1, 4, 10)) for e in (0.32, 0.64, 1.28)),
        *(
            (AdjMap(epsilon=e, theta=4, alpha=a), partial(adj_law, 4, a), TEN, (1, 4, 10))
            for e in (0.64, 2.56)
            for a in (0.4, 1.0, 10.0)
        ),
        (AdjMap(epsilon=0.32, theta=7), partial(adj_law, 7, 1.0), WIDE, (-20, 9, 43)),
        *(
            (LocalMap(epsilon=e, theta=4), partial(local_law, 4), TEN, (1, 3, 10))
            for e in (1.0, 5.12)
        ),
        (LocalMap(epsilon=0.32, theta=16), partial(local_law, 16), WIDE, (-20, 9, 43)),
        *(
            (BucketResponse(epsilon=e, buckets=q), partial(response_law, q), TEN, (1, 4, 10))
            for e in (1.0, 2.56)
            for q in (2, 4)
        ),
        (BucketResponse(epsilon=2.56, buckets=16), partial(response_law, 16), WIDE, (-20, 9, 43)),
        (BucketResponse(epsilon=1.0, edges=(2, 5)), partial(uneven_law, (1, 4)), TEN, (1, 4, 10)),
        *(
            (GeneralisedResponse(epsilon=e), partial(response_law, 10), TEN, (1, 10))
            for e in (1.0, 5.12)
        ),
        (GeneralisedResponse(epsilon=2.56), partial(response_law, 64), WIDE, (-20, 9, 43)),
        *((Piecewise(epsilon=e), piecewise_law, TEN, (1, 4, 10)) for e in (1.0, 5.12)),
        *((Piecewise(epsilon=e), piecewise_law, WIDE, (-20, 9, 43)) for e in (2.56, 8.0)),
        *((MissingBit(epsilon=e), missing_law, BIT, (0, 1)) for e in (0.32, 1.0, 5.12)),
        *((UnaryEncoding(epsilon=e), unary_law, TWO_BITS, (0, 3)) for e in (0.64, 1.0, 5.12)),
    )
    for value in values
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_claimed_scale_is_accepted_and_30_percent_off_is_rejected(case: Case) -> None:
    """The triple, on one sample: as claimed, 30 % less and 30 % more."""
    outputs = released(case.mechanism, case.domain, case.value)
    counts = np.bincount(outputs - case.domain.lower, minlength=case.domain.size)
    law, less, more = (
        case.law(case.mechanism.epsilon * factor, case.domain, case.value)
        for factor in (1, 0.7, 1.3)
    )
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert p_value(counts, less) < P
    assert p_value(counts, law) > P
    assert p_value(counts, more) < P


@pytest.mark.parametrize("epsilon", [0.08, 0.64, 5.12])
def test_draws_of_different_columns_are_independent(epsilon: float) -> None:
    """A joint law of two columns of the same persons and values, against the product."""
    domain = Domain(1, 6)
    one, other = (released(GlobalMap(epsilon=epsilon), domain, 3, column=i) for i in (1, 2))
    joint = np.bincount((one - 1) * 6 + other - 1, minlength=36)
    law = global_law(epsilon, domain, 3)
    assert p_value(joint, np.outer(law, law).ravel()) > P
    # The same column twice is what this must be able to tell apart.
    same = np.bincount((one - 1) * 7, minlength=36)
    assert p_value(same, np.outer(law, law).ravel()) < P


def test_draws_of_one_person_at_different_values_are_independent() -> None:
    """A changed cell gets independent noise: keys are not merely shifted."""
    domain, mechanism = Domain(1, 6), GlobalMap(epsilon=0.64)
    one, other = (released(mechanism, domain, value) for value in (3, 4))
    joint = np.bincount((one - 1) * 6 + other - 1, minlength=36)
    expected = np.outer(global_law(0.64, domain, 3), global_law(0.64, domain, 4)).ravel()
    assert p_value(joint, expected) > P


def test_an_output_that_cannot_be_is_rejected_whatever_its_number() -> None:
    assert p_value(np.array([50_000, 49_999, 1]), np.array([0.5, 0.5, 0.0])) == 0
    assert p_value(np.array([50_000, 50_000, 0]), np.array([0.5, 0.5, 0.0])) == 1


@pytest.mark.slow
def test_private_quantiles() -> None:
    """Three edges among thirteen points: the whole law of their places."""
    gaps, cells, epsilon = np.array([2, 0, 7, 1, 4, 0, 3, 9, 5, 2, 6, 1, 3, 8]), 4, 3.0
    below, people = np.cumsum(gaps)[:-1], int(gaps.sum())
    triples = list(itertools.combinations(range(13), 3))

    def halves(held: np.ndarray, first: int, last: int, epsilon: float) -> np.ndarray:
        """The law of the middle of a part, over the points that it may lie on."""
        away = np.abs(2 * np.cumsum(held)[first:last] - held.sum())
        found = np.exp(-epsilon / 8 * away)
        return found / found.sum()

    def law(epsilon: float) -> np.ndarray:
        middle = halves(gaps, 1, 12, epsilon)
        return np.array([
            middle[j - 1]
            * halves(gaps[: j + 1], 0, j, epsilon)[i]
            * halves(gaps[j + 1 :], 0, 12 - j, epsilon)[k - j - 1]
            for i, j, k in triples
        ])  # fmt: skip

    places = {triple: at for at, triple in enumerate(triples)}
    seen, table = np.zeros(len(triples), dtype=np.int64), weights(cells, epsilon)
    for number in range(DRAWS):
        words = noise.Words(number.to_bytes(32, "big"))
        drawn = draw(below, people, table, cells, words.below)
        seen[places[drawn]] += 1
    assert p_value(seen, law(epsilon)) > P
    assert p_value(seen, law(0.7 * epsilon)) < P
    assert p_value(seen, law(1.3 * epsilon)) < P
