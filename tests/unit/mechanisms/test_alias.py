"""Alias tables draw exactly the counts that they were built from."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.mechanisms.channel import TOTAL, AliasTable


@st.composite
def rows_of_counts(draw: st.DrawFn) -> list[list[int]]:
    outputs = draw(st.integers(1, 12))
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = sorted(draw(st.lists(st.integers(0, TOTAL), min_size=outputs - 1,
                                    max_size=outputs - 1)))  # fmt: skip
        rows.append([b - a for a, b in itertools.pairwise([0, *cuts, TOTAL])])
    return rows


@given(rows_of_counts())
@settings(max_examples=300)
def test_any_counts_are_reproduced(counts: list[list[int]]) -> None:
    """Zeros and rows that put all weight on one output included."""
    rebuilt = AliasTable.build(counts).rebuilt_counts()
    for row, wanted in zip(rebuilt, counts, strict=True):
        assert row[: len(wanted)] == wanted
        assert sum(row) == TOTAL


@given(rows_of_counts(), st.data())
def test_sample_is_what_the_columns_say(counts: list[list[int]], data: st.DataObject) -> None:
    """Both sides of every threshold, in plain integers against the vectorised draw."""
    table = AliasTable.build(counts)
    rest_bits = 64 - table.bits
    row = data.draw(st.integers(0, len(counts) - 1))
    column = data.draw(st.integers(0, 2**table.bits - 1))
    threshold, other = int(table.threshold[row, column]), int(table.alias[row, column])
    near = {0, threshold - 1, threshold, threshold + 1, 2**rest_bits - 1}
    for rest in (r for r in near if 0 <= r < 2**rest_bits):
        word = np.array([(column << rest_bits) | rest], dtype=np.uint64)
        expected = column if rest < threshold else other
        assert table.sample(np.array([row]), word).tolist() == [expected]
        assert counts[row][expected] > 0
