"""The quantile lookup ends, and finds what sorting everybody's rows would."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.domain import Domain
from opboost_ops.learning.federboost import quantiles
from opboost_ops.learning.federboost.quantiles import SortedColumns


def searched(tables, domains, buckets):
    """Edges of all columns, and after how many rounds, for parties with one table each."""
    rows = sum(len(table[0]) for table in tables)
    parties = [SortedColumns(table) for table in tables]
    state, rounds = quantiles.begin(domains, buckets), 0
    while not all(search.done for search in state):
        sums = np.sum([party.counts(state) for party in parties], axis=0)
        assert sums.shape == (quantiles.size_of(state),)
        state, rounds = quantiles.narrow(state, sums, [rows] * len(domains), buckets), rounds + 1
    return [search.edges for search in state], rounds


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 120),
    st.integers(2, 20),
    st.sampled_from([2, 3, 10, 1000, 65536]),
    st.booleans(),
)
def test_it_finds_the_smallest_values_whose_counts_reach(seed, rows, buckets, size, ties):
    random = np.random.default_rng(seed)
    domain = Domain(-3, size - 4)
    many = random.integers(domain.lower, domain.upper + 1, rows)
    few = random.choice(many[: 1 + seed % 7], rows)
    columns = [few if ties else many, few]
    cuts = np.array_split(random.permutation(rows), 3)
    edges, rounds = searched([[c[cut] for c in columns] for cut in cuts], [domain] * 2, buckets)
    assert rounds <= math.ceil(math.log2(domain.size))
    for column, found in zip(columns, edges, strict=True):
        present = np.unique(column)
        if len(present) <= buckets:
            # A bucket a value.
            assert found == tuple(int(v) for v in present[:-1])
            continue
        ordered = np.sort(column)
        targets = [-(-j * rows // buckets) for j in range(1, buckets)]
        assert found == tuple(sorted({int(ordered[target - 1]) for target in targets}))


def test_the_printed_stop_is_never_reached_on_ties_or_when_buckets_do_not_divide_rows():
    # Errata: Protocol 3 stops when exactly j n / q rows lie below. Here no point has so many.
    column = np.array([1, 1, 1, 1, 5, 6, 7])
    counts = [int((column <= v).sum()) for v in range(8)]
    buckets, rows = 4, len(column)
    assert not any(count == j * rows / buckets for j in range(1, buckets) for count in counts)
    edges, rounds = searched([[column]], [Domain(1, 8)], buckets)
    assert edges == [(1, 5, 6)] and rounds == 3


def test_a_bin_holds_what_lies_at_or_below_its_edge():
    bins = quantiles.bins_of([np.array([1, 2, 3, 9])], [(2, 3)])
    assert bins.tolist() == [[0, 0, 1, 2]]
