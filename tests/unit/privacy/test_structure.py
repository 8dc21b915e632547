"""How narrow exactly disclosed cells are: also at both ends, and where a value is missing."""

import math
from typing import Any

import pytest

from opboost_ops.config.feature import Feature
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.structure import Structure
from tests.unit.privacy.test_accountant import AGE, policy, release, totals


def answered(*edges: float, feature: str = "age", **changes: Any) -> Release:
    """Routed scoring's line: thresholds in the feature's unit."""
    facts = {"kind": "routes", "account": "structural", "draw": None, "loss": None}
    span = (0.0, 30_000.0) if edges else None
    return release(str(edges), feature, **{**facts, "edges": edges, "span": span, **changes})


def budget(width: float) -> Budget:
    return Budget(policy(least_cell_width=width), {AGE: "age"})


@pytest.mark.parametrize(
    ("edges", "least"),
    [
        ((0.0,), 0),  # At the bound: it tells exactly who is there.
        ((1500.0,), 1500),
        ((29_000.0,), 1000),
        ((4000.0, 10_000.0), 4000),
    ],
)
def test_the_cells_at_both_ends_count(edges: tuple[float, ...], least: float) -> None:
    budget(least)(totals([]), [answered(*edges)])
    with pytest.raises(BudgetError, match=f"would leave a cell of {least:g}"):
        budget(least + 1)(totals([]), [answered(*edges)])


def test_a_routed_missing_bit_is_a_cell_of_no_width() -> None:
    told = answered(feature="age=missing")
    budget(0)(totals([]), [told])
    with pytest.raises(BudgetError, match="would leave a cell of 0"):
        budget(2000)(totals([]), [told])
    # Randomised, it is charged by its loss and tells nothing exactly.
    assert accounts([answered(feature="age=missing", account="local_dp")])[AGE].least_cell is None


def test_what_was_told_already_is_not_held_against_a_run_that_tells_no_more() -> None:
    before = [answered(0.0, 500.0)]
    strict = budget(2000)
    strict(totals(before), [answered(0.0, 500.0, run="1" * 16, artifact="2" * 64)])
    strict(totals(before), [answered(500.0)])
    assert accounts(before)[AGE].least_cell == 0
    with pytest.raises(BudgetError, match="would leave a cell of 0"):
        strict(totals(before), [answered(15_000.0)])


def test_lines_of_the_former_release_have_no_range_and_count_between_edges() -> None:
    before = [answered(0.0, 500.0, span=None)]
    assert accounts(before)[AGE].least_cell == 500
    # With the next exact disclosure the ends count for all edges.
    assert accounts([*before, answered(500.0)])[AGE].least_cell == 0


def test_ranges_of_several_declarations_all_count() -> None:
    found = Structure()
    found.add([2000.0], (0.0, 30_000.0), False)
    found.add([2000.0], (1900.0, 30_000.0), False)
    assert found.least_cell == 100


def test_edges_beyond_the_bounds_tell_of_nobody() -> None:
    found = Structure()
    found.add([-5.0, 10.0, 40.0], (0.0, 30.0), False)
    assert found.least_cell == 10


@pytest.mark.parametrize(
    ("feature", "span"),
    [
        ({"bounds": (0, 5)}, (0, 5)),
        ({"type": "nominal", "categories": ("a", "b")}, None),
        ({}, None),
    ],
)
def test_the_range_of_a_feature(feature: dict[str, Any], span: Any) -> None:
    assert Feature(uuid=AGE, **feature).span == span


@pytest.mark.parametrize(("edge", "categories"), [(0, 1), (0.9, 1), (1, 2), (2, 1), (2.4, 1)])
def test_categories_in_order_are_counted_also_at_the_ends(edge: float, categories: int) -> None:
    span = Feature(uuid=AGE, type="ordinal", categories=("a", "b", "c", "d")).span
    found = Structure()
    found.add([edge], span, False)
    assert found.least_cell is not None
    assert math.floor(found.least_cell) == categories
