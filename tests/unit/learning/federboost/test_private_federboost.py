"""Learning from noisy sums: what one row can change, what the noise costs, what is decided."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as options
from hypothesis import strategies as st

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.learning.federboost import histogram, private_federboost
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.objectives import Objective
from opboost_ops.learning.federboost.private_federboost import (
    Private,
    draw_splits,
    learn_private,
    noise_of,
)
from opboost_ops.learning.private import leaf_sums, noise

DOMAINS = (Domain(1, 256), Domain(1, 4), Domain(1, 4096))
GROWTH = Growth(depth=2, learning_rate=0.3, penalty=1.0, min_node_rows=5)


#: Of each column, whether it may miss values; a domain of few values is among them.
KEEPS = (True, True, False)


def problem(rows=400, seed=1, task="binary", missing=None):
    """With a share of missing values, the first two columns may miss some."""
    random = np.random.default_rng(seed)
    columns = [random.integers(d.lower, d.upper + 1, rows) for d in DOMAINS]
    score = columns[0] / 64 + columns[1] + random.normal(0, 1, rows)
    if task == "binary":
        label, objective = (score > 5).astype(float), Objective("binary", 2)
    else:
        label, objective = np.clip(score, 0, 10), Objective("regression", 0, (0.0, 10.0))
    if missing is None:
        return columns, label, Settings(objective, DOMAINS, 4, 8, GROWTH)
    for at in (0, 1):
        columns[at][random.random(rows) < missing] = DOMAINS[at].upper + 1
    return columns, label, Settings(objective, DOMAINS, 4, 8, GROWTH, KEEPS)


class Recorder:
    """All rows at one party, with the noise of so many; keeps vectors, and may repeat decisions."""

    def __init__(self, means=None, parties=3, decided=None):
        self.parties, self._means, self._decided = parties, means, decided
        self.vectors, self.decisions = {}, {}

    def step(self, name, size, vector, decide, form, bounds=()):
        made = vector()
        assert made.shape == (size,) and made.dtype == np.int64
        self.vectors[name.name] = made
        if self._decided is not None:
            return self._decided[name.name]
        drawn = self._means and noise.skellam(size, self.parties * self._means[name.phase])
        self.decisions[name.name] = decide(made if drawn is None else made + drawn)
        return self.decisions[name.name]


PRIVATE = Private(epsilon=2.0, delta=1e-4, honest=2)


@pytest.mark.slow
@options(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from(["binary", "regression"]),
    st.sampled_from([None, 0.0, 0.3]),
)
def test_one_row_changes_a_round_by_no_more_than_is_counted(seed, task, missing):
    """Whatever was decided before: the other run hears the same decisions, and has a row less."""
    x, label, settings = problem(120, seed, task, missing)
    first = Recorder(noise_of(settings, PRIVATE).means)
    learn_private(x, label, settings, PRIVATE, first)
    gone = seed % 120
    less = [np.delete(column, gone) for column in x]
    second = Recorder(decided=first.decisions)
    learn_private(less, np.delete(label, gone), settings, PRIVATE, second)
    counted = {r.phase: r for r in releases(settings, PRIVATE)}
    assert set(second.vectors) == set(first.vectors)
    for name, vector in first.vectors.items():
        phase = counted[name.split("-")[0]]
        # A round of trees holds several, each of which is counted once.
        for moved in releases_in(np.abs(vector - second.vectors[name]), name, settings):
            assert moved.sum() <= phase.l1 and (moved**2).sum() <= phase.l2_squared


@options(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["binary", "regression"]))
def test_a_replaced_row_changes_a_round_by_no_more_than_is_counted_for_it(seed, task):
    x, label, settings = problem(120, seed, task)
    first = Recorder(noise_of(settings, PRIVATE).means)
    learn_private(x, label, settings, PRIVATE, first)
    random, at = np.random.default_rng(seed), seed % 120
    other, changed = [column.copy() for column in x], label.copy()
    for column, domain in zip(other, DOMAINS, strict=True):
        column[at] = random.integers(domain.lower, domain.upper + 1)
    changed[at] = 1 - label[at] if task == "binary" else 10 - label[at]
    second = Recorder(decided=first.decisions)
    learn_private(other, changed, settings, PRIVATE, second)
    counted = {r.phase: r.replaced for r in releases(settings, PRIVATE)}
    for name, vector in first.vectors.items():
        l1, l2_squared = counted[name.split("-")[0]]
        for moved in releases_in(np.abs(vector - second.vectors[name]), name, settings):
            assert moved.sum() <= l1 and (moved**2).sum() <= l2_squared


def test_a_bin_of_missing_values_costs_nothing_and_is_there_whoever_misses_any():
    """One row is in one bin of a column, this one among them; that it is there is declared."""
    _, _, plain = problem()
    sizes = {}
    for missing in (0.0, 0.3, 1.0):
        x, label, kept = problem(missing=missing)
        assert noise_of(kept, PRIVATE).means == noise_of(plain, PRIVATE).means
        recorder = Recorder(noise_of(kept, PRIVATE).means)
        learn_private(x, label, kept, PRIVATE, recorder)
        edges = recorder.decisions["lookup-00000-00"].edges
        assert all(len(ends) > 0 for ends in edges)
        sizes[missing] = {name: each.size for name, each in recorder.vectors.items()}
        if missing == 1.0:
            assert not recorder.vectors["lookup-00000-00"][:256].any(), "a row in no cell"
    assert sizes[0.0] == sizes[0.3] == sizes[1.0]


@pytest.mark.parametrize("way", ["left", "right"])
def test_missing_values_are_learnt_from_whichever_class_they_are(way):
    x, label, settings = problem(4000, missing=0.3)
    # Splits are drawn, not searched: of 100 such small trees too few may ask for this column.
    settings = replace(settings, trees=300)
    gone = x[0] == DOMAINS[0].upper + 1
    label[gone] = way == "right"
    label[~gone] = x[0][~gone] > 128
    private = Private(50.0, 1e-6, 2)
    recorder = Recorder(noise_of(settings, private).means)
    scores = scores_of(learn_private(x, label, settings, private, recorder), x, settings)
    assert ((scores > 0) == (label == 1))[gone].mean() > 0.95
    assert ((scores > 0) == (label == 1)).mean() > 0.9


def scores_of(ensemble, columns, settings):
    """What the finished trees say of rows: the model that a session ends with."""
    rows = settings.binned(columns, ensemble.edges)
    found = np.full(len(columns[0]), ensemble.facts.initial[0])
    for (tree,) in ensemble.trees:
        nodes = np.zeros(len(found), dtype=np.int64)
        for _ in range(settings.growth.depth):
            opened = [int(node) for node in np.unique(nodes) if int(node) in tree.splits]
            nodes = histogram.apply(rows, nodes, tree, opened)
        found += np.array([leaf.value for leaf in tree.leaves])[nodes]
    return found


def releases_in(vector, name, settings):
    """The parts of a round's vector that are counted as releases of their own."""
    if not name.startswith("trees"):
        return [vector]
    first = int(name.split("-")[1])
    return np.split(vector, min(private_federboost.TREES_PER_ROUND, settings.trees - first))


def releases(settings, private):
    """What the noise is calibrated for."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        real = leaf_sums.calibrate
        patch.setattr(
            leaf_sums, "calibrate", lambda found, *more: seen.append(found) or real(found, *more)
        )
        # What is kept of earlier calls is not counted.
        leaf_sums.sums_of.cache_clear()
        noise_of(settings, private)
    return seen[-1]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_noise_is_the_least_that_keeps_epsilon(epsilon):
    _, _, settings = problem()
    found = noise_of(settings, Private(epsilon, 1e-6, 2))
    assert 0.98 * epsilon < found.curve.epsilon <= epsilon
    # Fewer who are honest: each adds more, in proportion.
    alone = noise_of(settings, Private(epsilon, 1e-6, 1)).means["trees"]
    assert alone == pytest.approx(2 * found.means["trees"], rel=0.01)


def test_an_epsilon_that_takes_too_much_noise_is_refused():
    _, _, settings = problem()
    with pytest.raises(ConfigError, match="greater epsilon"):
        noise_of(settings, Private(1e-7, 1e-6, 1))


@pytest.mark.parametrize("task", [pytest.param("binary", marks=pytest.mark.slow), "regression"])
def test_it_learns(task):
    x, label, settings = problem(20_000, task=task)
    settings = replace(settings, trees=100, growth=replace(GROWTH, depth=5, learning_rate=0.1))
    private = Private(4.0, 1e-6, 2)
    recorder = Recorder(noise_of(settings, private).means)
    ensemble = learn_private(x, label, settings, private, recorder)
    assert abs(ensemble.facts.rows - 20_000) < 200
    assert len(ensemble.trees) == 100
    assert len(recorder.vectors) == 12, "facts, bucket ends, and ten rounds of ten trees"
    scores = scores_of(ensemble, x, settings)
    if task == "binary":
        assert ((scores > 0) == (label == 1)).mean() > 0.75
    else:
        truth = label / 10
        assert np.mean((scores - truth) ** 2) < 0.5 * np.var(truth)


def test_splits_follow_from_the_seed_alone_and_use_all_columns_alike():
    x, label, settings = problem()
    recorder = Recorder(noise_of(settings, PRIVATE).means)
    learn_private(x, label, settings, PRIVATE, recorder)
    rows = settings.binned(x, recorder.decisions["lookup-00000-00"].edges)
    candidates = private_federboost.candidates_of(rows.widths, rows.keeps)
    seed = recorder.decisions["facts-00000-00"].seed
    drawn = [draw_splits(seed, number, 6, candidates) for number in range(100)]
    assert drawn == [draw_splits(seed, number, 6, candidates) for number in range(100)]
    used = np.bincount(candidates.feature[np.concatenate(drawn)]) / 6300
    assert (np.abs(used - 1 / 3) < 0.05).all()
    assert drawn[0] != draw_splits("00" * 32, 0, 6, candidates)


@options(max_examples=50, deadline=None)
@given(st.integers(2, 5000), st.integers(2, 40), st.integers(0, 2**31))
def test_bucket_ends_rise_and_are_ends_of_cells_below_the_last(size, buckets, seed):
    ends = private_federboost.cell_ends(Domain(1, size))
    assert ends[-1] == size and (np.diff(ends) > 0).all() and ends[0] >= 1
    counts = np.random.default_rng(seed).integers(-50, 100, len(ends))
    found = private_federboost.bucket_ends(counts, ends, buckets)
    assert 1 <= len(found) < buckets and set(found) <= set(ends[:-1].tolist())
    assert list(found) == sorted(set(found))


def test_a_decision_that_does_not_fit_is_refused():
    x, label, settings = problem()
    first = Recorder(noise_of(settings, PRIVATE).means)
    learn_private(x, label, settings, PRIVATE, first)
    for name, wrong in (
        ("lookup-00000-00", private_federboost.Ends(edges=((9, 9), (1,), (2,)))),
        ("lookup-00000-00", private_federboost.Ends(edges=((256,), (1, 2, 3), (2,)))),
        ("trees-00000-00", private_federboost.Leaves(values=((0, 0),))),
    ):
        with pytest.raises(ContractError, match="does not fit"):
            learn_private(
                x, label, settings, PRIVATE, Recorder(decided={**first.decisions, name: wrong})
            )
