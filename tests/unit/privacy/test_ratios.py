"""The worst ratios by floats and integers equal those by integers alone, which took hours."""

import time
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GeneralisedResponse,
    GlobalMap,
    LocalMap,
    MissingBit,
    Piecewise,
    UnaryEncoding,
)
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.loss import end_ratios, worst_ratios

TOTAL = 2**64


def by_integers_alone(counts: tuple[tuple[int, ...], ...]) -> list[Fraction | None]:
    """By definition: O(|D|^3) steps of Python."""
    result: list[Fraction | None] = []
    worst: Fraction | None = Fraction(1)
    for t in range(1, len(counts)):
        for x in range(len(counts) - t):
            for a, b in zip(counts[x], counts[x + t], strict=True):
                high, low = (a, b) if a > b else (b, a)
                if worst is None or high * worst.denominator <= low * worst.numerator:
                    continue
                worst = Fraction(high, low) if low else None
        result.append(worst)
    return result


def every_mechanism(size: int, epsilon: float) -> Iterator[object]:
    yield GlobalMap(epsilon=epsilon)
    yield AdjMap(epsilon=epsilon, theta=max(1, size // 5), alpha=0.7)
    yield LocalMap(epsilon=epsilon, theta=max(1, size // 3))
    yield BucketResponse(epsilon=epsilon, buckets=max(2, size // 2))
    yield GeneralisedResponse(epsilon=epsilon)
    yield Piecewise(epsilon=epsilon)


EPSILONS = (0.01, 0.1, 0.64, 2.56, 10.0, 40.0, 700.0)


@pytest.mark.parametrize("sizes", [range(2, 32), (32, 37, 48, 63, 64)], ids=["small", "large"])
def test_every_mechanism_at_every_size(sizes: Sequence[int]) -> None:
    cases = [(n, each) for n in sizes for each in every_mechanism(n, EPSILONS[n % len(EPSILONS)])]
    for size, mechanism in cases:
        counts = mechanism.channel(Domain(1, size)).counts  # type: ignore[attr-defined]
        truth = by_integers_alone(counts)
        assert worst_ratios(counts) == truth, mechanism
        assert end_ratios(counts) == (truth[0], truth[-1]), mechanism


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_mechanisms_on_bits(epsilon: float) -> None:
    for mechanism in (MissingBit(epsilon=epsilon), UnaryEncoding(epsilon=epsilon)):
        counts = mechanism.channel(BIT).counts
        assert worst_ratios(counts) == by_integers_alone(counts)


def rows(outputs: int) -> st.SearchStrategy[tuple[int, ...]]:
    """A row of counts; many entries are so near to one another that floats see no difference."""
    near = st.one_of(
        st.integers(0, 3),
        st.integers(2**60 - 3, 2**60 + 3),
        st.integers(2**61 - 2, 2**61 + 2),
        st.integers(0, 2**61),
    )
    return st.lists(near, min_size=outputs - 1, max_size=outputs - 1).map(
        lambda entries: (*entries, TOTAL - sum(entries))
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_channel_with_ties_that_floats_do_not_see(data: st.DataObject) -> None:
    outputs = data.draw(st.integers(2, 6))
    counts = tuple(data.draw(st.lists(rows(outputs), min_size=2, max_size=9)))
    truth = by_integers_alone(counts)
    assert worst_ratios(counts) == truth
    assert end_ratios(counts) == (truth[0], truth[-1])


def test_the_curve_of_512_values_takes_seconds() -> None:
    """By integers alone 1024 values took most of an hour, and `publish` waited for it."""
    counts = GlobalMap(epsilon=0.1).channel(Domain(1, 512)).counts
    begin = time.process_time()
    ratios = worst_ratios(counts)
    assert time.process_time() - begin < 5
    # Where the exact answer is known: the farthest inputs, by columns alone.
    columns = np.array(counts, dtype=np.uint64)
    ends = max(Fraction(int(column.max()), int(column.min())) for column in columns.T)
    assert ratios[-1] == ends
    assert len(ratios) == 511


def test_a_certain_output_has_a_count_that_uint64_does_not_hold() -> None:
    counts = ((TOTAL, 0), (TOTAL, 0), (0, TOTAL))
    assert worst_ratios(counts) == [None, None] == by_integers_alone(counts)
    assert worst_ratios(counts[:2]) == [Fraction(1)]
