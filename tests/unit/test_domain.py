"""Domains and the public maps onto them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.errors import ConfigError, ContractError


def test_size_and_values() -> None:
    domain = Domain(3, 7)
    assert domain.size == 5
    assert domain.values().tolist() == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(("lower", "upper"), [(1, 1), (2, 1)])
def test_lower_must_be_less(lower: int, upper: int) -> None:
    with pytest.raises(ConfigError, match="less than"):
        Domain(lower, upper)
    with pytest.raises(ConfigError, match="less than"):
        DomainMap(Domain(1, 10), (float(lower), float(upper)))


def test_the_designs_formula() -> None:
    """ceil(L + (x - lower) / (upper - lower) (R - L)), by hand on [1, 10]."""
    mapping = DomainMap(Domain(1, 10), (0.0, 90.0))
    values = np.array([0.0, 0.001, 10.0, 10.001, 89.0, 90.0])
    assert mapping.encode(values).tolist() == [1, 2, 2, 3, 10, 10]


@given(
    lower=st.integers(-50, 50),
    width=st.integers(1, 60),
    x=st.integers(-1000, 1000),
    power=st.integers(0, 6),
)
def test_linear_equals_exact_arithmetic(lower: int, width: int, x: int, power: int) -> None:
    """Bounds 0 and 2^power, values in halves: the float is exact, so the ceiling must be."""
    domain = Domain(lower, lower + width)
    upper = 2.0**power
    value = x / 8
    inside = min(max(Fraction(value), Fraction(0)), Fraction(upper))
    expected = math.ceil(lower + inside / Fraction(upper) * width)
    assert DomainMap(domain, (0.0, upper)).encode(np.array([value])).tolist() == [expected]


@pytest.mark.parametrize("scale", ["linear", "log1p", "edges"])
@given(values=st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30))
def test_every_scale_keeps_order_and_domain(scale: str, values: list[float]) -> None:
    domain = Domain(1, 10)
    edges = (0.5, 1.0, 7.0, 100.0) if scale == "edges" else None
    mapping = DomainMap(domain, (0.0, 1000.0), scale, edges)
    encoded = mapping.encode(np.sort(np.array(values)))
    assert (np.diff(encoded) >= 0).all()
    assert encoded.min() >= 1
    assert encoded.max() <= 10


def test_log1p_and_edges_by_hand() -> None:
    log = DomainMap(Domain(1, 10), (0.0, 1023.0), "log1p")
    # log2(1 + x) / 10 of the width 9: 31 gives 4.5, so 1 + 5.
    assert log.encode(np.array([0.0, 31.0, 1023.0])).tolist() == [1, 6, 10]
    edges = DomainMap(Domain(1, 10), (0.0, 100.0), "edges", (10.0, 20.0))
    assert edges.encode(np.array([0.0, 10.0, 10.5, 20.0, 21.0, 500.0])).tolist() == [
        1, 1, 2, 2, 3, 3,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_missing_is_never_laid_on_the_domain(value: float) -> None:
    with pytest.raises(ContractError, match="Missing or infinite"):
        DomainMap(Domain(1, 10), (0.0, 1.0)).encode(np.array([0.5, value]))


@pytest.mark.parametrize("edges", [None, (), tuple(float(i) for i in range(10))])
def test_edges_must_fit_the_domain(edges: tuple[float, ...] | None) -> None:
    with pytest.raises(ConfigError, match="edges"):
        DomainMap(Domain(1, 10), (0.0, 1.0), "edges", edges)


def test_every_part_of_the_map_is_in_its_digest() -> None:
    maps = [
        DomainMap(Domain(1, 10), (0.0, 1.0)),
        DomainMap(Domain(1, 11), (0.0, 1.0)),
        DomainMap(Domain(0, 10), (0.0, 1.0)),
        DomainMap(Domain(1, 10), (0.0, np.nextafter(1.0, 2.0))),
        DomainMap(Domain(1, 10), (-1.0, 1.0)),
        DomainMap(Domain(1, 10), (0.0, 1.0), "log1p"),
        DomainMap(Domain(1, 10), (0.0, 1.0), "edges", (0.5,)),
        DomainMap(Domain(1, 10), (0.0, 1.0), "edges", (0.25,)),
    ]
    digests = {mapping.digest() for mapping in maps}
    assert len(digests) == len(maps)
    assert DomainMap(Domain(1, 10), (0.0, 1.0)).digest() in digests


@pytest.mark.parametrize(
    "mapping",
    [
        DomainMap(Domain(1, 4096), (-5.0, 17.3)),
        DomainMap(Domain(-7, 300), (0.1, 30_000.0), "log1p"),
        DomainMap(Domain(0, 5), (0.0, 1.0), "edges", (0.1, 0.3, 0.7)),
    ],
)
def test_the_highest_number_of_a_value_is_the_last_one_to_the_bit(mapping: DomainMap) -> None:
    present = np.unique(mapping.encode(np.linspace(*mapping.bounds, 997)))
    for value in present[:-1]:
        at = mapping.highest(int(value))
        assert int(mapping.encode(np.array([at]))[0]) <= value
        assert int(mapping.encode(np.array([np.nextafter(at, np.inf)]))[0]) > value
    assert mapping.highest(int(present[-1])) == mapping.bounds[1]
