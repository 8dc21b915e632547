"""How a column fills its domain, and the better scale that `check` and `plan` propose."""

from uuid import UUID

import numpy as np

from opboost_ops.config.feature import Feature
from opboost_ops.domain import Domain
from opboost_ops.quality.domain_filling import filling

INCOMES = np.exp(np.random.default_rng(1).normal(7.7, 0.4, 4000))


def declared(**more: object) -> Feature:
    about = {"uuid": UUID(int=1), "bounds": (300, 8000), **more}
    return Feature.model_validate(about)


def test_a_logarithm_of_the_distance_from_the_bound_crowds_incomes() -> None:
    found = filling("income", INCOMES, declared(scale="log1p"), Domain(1, 10))
    assert sum(found.counts) == 4000
    assert found.few and found.holding <= 3
    assert found.better and found.better in found.warning
    assert len(found.histogram) == 10


def test_nothing_is_said_where_the_domain_is_filled() -> None:
    even = np.linspace(300, 8000, 1000)
    assert filling("income", even, declared(), Domain(1, 10)).warning == ""
    # Two values fill two cells: no scale helps.
    flags = np.array([0.0, 1.0] * 50)
    assert filling("flag", flags, declared(bounds=(0, 1)), Domain(1, 10)).warning == ""


def test_bounds_that_are_too_wide() -> None:
    rows = np.linspace(0, 100, 1000)
    found = filling("x", rows, declared(bounds=(0, 1_000_000)), Domain(1, 10))
    assert found.holding == 1 and "log1p" in found.better
