"""The triple, on the real sampler: the claimed scale is accepted, 30 % less or more is not."""

import uuid

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.global_map import GlobalMap
from opboost_ops.mechanisms.release import randomise

DRAWS = 100_000
P = 1e-20

#: A fixed secret makes the draws, and so the verdicts, the same at every run of the suite.
SECRET = b"statistical tests, public secret"
KEYS = noise.person_keys(noise.receiver_secret(SECRET, "test"), pa.array(range(DRAWS)), "integer")


def counts(epsilon: float, domain: Domain, value: int) -> np.ndarray:
    """How often each output was released for one input, over all persons."""
    released = randomise(
        np.full(DRAWS, value, dtype=np.int64),
        KEYS,
        GlobalMap(epsilon=epsilon),
        domain,
        b"map",
        SECRET,
        uuid.UUID(int=7),
    )
    return np.bincount(released - domain.lower, minlength=domain.size)


def law(epsilon: float, domain: Domain, value: int) -> np.ndarray:
    """The closed form, from the formula and not from the code under test."""
    weights = np.exp(-np.abs(domain.values() - value) * epsilon / 2)
    return weights / weights.sum()


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Pearson's chi-squared, outputs of fewer than five expected draws pooled."""
    wanted = expected * observed.sum()
    few = wanted < 5
    seen = np.append(observed[~few], observed[few].sum())
    wanted = np.append(wanted[~few], wanted[few].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return float(chi2.sf(statistic, len(seen) - 1))


CASES = [
    (epsilon, domain, value)
    for epsilon in (0.64, 1.0, 2.56, 5.12)
    for domain, values in ((Domain(1, 10), (1, 4, 10)), (Domain(1, 64), (1, 30, 64)))
    for value in values
]


@pytest.mark.parametrize(("epsilon", "domain", "value"), CASES, ids=str)
def test_the_claimed_scale_is_accepted(epsilon: float, domain: Domain, value: int) -> None:
    assert p_value(counts(epsilon, domain, value), law(epsilon, domain, value)) > P


@pytest.mark.parametrize("factor", [0.7, 1.3])
@pytest.mark.parametrize(("epsilon", "domain", "value"), CASES, ids=str)
def test_a_scale_30_percent_off_is_rejected(
    epsilon: float, domain: Domain, value: int, factor: float
) -> None:
    assert p_value(counts(epsilon, domain, value), law(epsilon * factor, domain, value)) < P


@pytest.mark.parametrize("epsilon", [0.08, 0.64, 5.12])
def test_draws_of_different_columns_are_independent(epsilon: float) -> None:
    """A joint law of two columns of the same persons and values, against the product."""
    domain = Domain(1, 6)
    columns = [
        randomise(
            np.full(DRAWS, 3, dtype=np.int64),
            KEYS,
            GlobalMap(epsilon=epsilon),
            domain,
            b"map",
            SECRET,
            uuid.UUID(int=i),
        )
        for i in (1, 2)
    ]
    joint = np.bincount((columns[0] - 1) * 6 + columns[1] - 1, minlength=36)
    one = law(epsilon, domain, 3)
    assert p_value(joint, np.outer(one, one).ravel()) > P
    # The same column twice is what this must be able to tell apart.
    same = np.bincount((columns[0] - 1) * 7, minlength=36)
    assert p_value(same, np.outer(one, one).ravel()) < P


def test_draws_of_one_person_at_different_values_are_independent() -> None:
    """A changed cell gets independent noise: keys are not merely shifted."""
    domain, mechanism = Domain(1, 6), GlobalMap(epsilon=0.64)
    released = [
        randomise(np.full(DRAWS, v, dtype=np.int64), KEYS, mechanism, domain, b"map", SECRET,
                  uuid.UUID(int=1))
        for v in (3, 4)
    ]  # fmt: skip
    joint = np.bincount((released[0] - 1) * 6 + released[1] - 1, minlength=36)
    expected = np.outer(law(0.64, domain, 3), law(0.64, domain, 4)).ravel()
    assert p_value(joint, expected) > P
