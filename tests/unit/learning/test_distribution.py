"""Distributions of scores: all rows are counted, and no bin has one person."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opboost_ops.learning.distribution import (
    MIN_PEOPLE,
    bin_ends,
    held_out_distribution,
    histogram,
    new_distribution,
)

_SCORES = st.lists(st.floats(0, 1), max_size=120).map(np.array)


@given(_SCORES)
def test_every_bin_has_nobody_or_enough_and_all_are_counted(scores: np.ndarray) -> None:
    found = histogram("all", scores, bin_ends("binary", scores))
    if len(scores) < MIN_PEOPLE:
        assert found == {"name": "all", "rows": None, "edges": [], "counts": []}
        return
    assert all(count == 0 or count >= MIN_PEOPLE for count in found["counts"])
    assert sum(found["counts"]) == found["rows"] == len(scores)
    edges = found["edges"]
    assert (edges[0], edges[-1]) == (0.0, 1.0)
    assert len(edges) == len(found["counts"]) + 1
    assert (np.diff(edges) > 0).all()
    # A bin that was merged is still what is counted between its ends.
    again, _ = np.histogram(scores, edges)
    assert again.tolist() == found["counts"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=MIN_PEOPLE, max_size=120).map(np.array))
@example(np.repeat([0.0, 1.0, 5e-324], [4, 4, 2]))  # The middle is a number that has no twentieth.
@example(np.repeat([0.0, 5e-324], 30))
@example(np.repeat([0.0, 1e-89], 30))
def test_the_ends_of_numbers_show_no_single_one(scores: np.ndarray) -> None:
    ends = bin_ends("regression", scores)
    moved = scores.copy()
    # The lowest and the highest person may be anywhere beyond: nobody sees it.
    moved[scores.argmin()] = -1e9
    moved[moved.argmax()] = 1e9
    assert bin_ends("regression", moved).tolist() == ends.tolist()
    assert (np.diff(ends) > 0).all()
    found = histogram("all", scores, ends)
    assert sum(found["counts"]) == len(scores)
    assert all(count == 0 or count >= MIN_PEOPLE for count in found["counts"])


def test_a_few_at_the_end_go_with_those_before_them() -> None:
    scores = np.concatenate([np.full(50, 0.01), np.full(3, 0.99)])
    assert histogram("all", scores, bin_ends("binary", scores))["counts"] == [53]
    empty = np.concatenate([np.full(50, 0.01), np.full(3, 0.5), np.full(20, 0.99)])
    found = histogram("all", empty, bin_ends("binary", empty))
    assert found["counts"] == [50, 0, 23]
    assert found["edges"][-2:] == [0.5, 1.0]


def test_rows_are_apart_by_what_they_are() -> None:
    truth = np.repeat([0, 1], [40, 5])
    found = held_out_distribution("binary", ["no", "yes"], truth, np.full(45, 0.2))
    assert [(s["name"], s["rows"]) for s in found["series"]] == [
        ("class no", 40),
        ("class yes", None),
    ]
    several = np.tile([0.7, 0.2, 0.1], (30, 1))
    found = held_out_distribution("multiclass", ["a", "b", "c"], np.repeat([0, 1], 15), several)
    assert [(s["name"], s["rows"]) for s in found["series"]] == [("right", 15), ("wrong", 15)]
    numbers = np.linspace(-3, 3, 200)
    found = held_out_distribution("regression", [], numbers, numbers / 2)
    assert [(s["name"], s["rows"]) for s in found["series"]] == [("predicted", 200), ("true", 200)]


@pytest.mark.parametrize("few", [1, MIN_PEOPLE - 1])
def test_a_class_that_few_have_keeps_all_counts_of_classes_back(few: int) -> None:
    said = {"yes": few, "no": 50}
    found = new_distribution("binary", np.linspace(0, 1, 50 + few), said)
    assert "said" not in found
    said = {"yes": MIN_PEOPLE, "no": 50}
    found = new_distribution("binary", np.linspace(0, 1, 50 + MIN_PEOPLE), said)
    assert list(found["said"].items()) == [("no", 50), ("yes", MIN_PEOPLE)]
    assert found["mean"] == pytest.approx(0.5)


def test_of_a_handful_nothing_is_said() -> None:
    found = new_distribution("binary", np.full(MIN_PEOPLE - 1, 0.3), {"no": MIN_PEOPLE - 1})
    assert set(found) == {"least", "series"}
    assert found["series"][0]["counts"] == []
