"""Trees from integer histograms: like a plain booster, and the same for any number of parties."""

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.learning.federboost import histogram, quantiles
from opboost_ops.learning.federboost.federboost import Lookup, Settings, learn
from opboost_ops.learning.federboost.histogram import SUMS, Derivatives, Growth, Rows
from opboost_ops.learning.federboost.histogram_text import ColumnText, text_of
from opboost_ops.learning.federboost.objectives import BOUND, ONE, Objective, require_room

MAP = DomainMap(Domain(1, 4096), (-5.0, 5.0))
BINARY = Objective("binary", 2)
SQUARE = Objective("regression", bounds=(-40.0, 40.0))
SOFTMAX = Objective("multiclass", 3)


def table(rows=600, seed=3):
    random = np.random.default_rng(seed)
    raw = random.normal(size=(4, rows))
    raw[0] = random.integers(-2, 3, rows)
    score = raw[0] + raw[1] * raw[2] + 0.3 * random.normal(size=rows)
    labels = {
        "binary": (score > 0).astype(float),
        "regression": 3 * score,
        "multiclass": np.digitize(score, [-0.8, 0.8]).astype(float),
    }
    return raw, [MAP.encode(column) for column in raw], labels


def declared(objective, trees=4, penalty=1.0, depth=3):
    growth = Growth(depth=depth, learning_rate=0.2, penalty=penalty, min_node_rows=15)
    return Settings(objective, (MAP.domain,) * 4, trees, 16, growth)


def text(ensemble, objective):
    columns = [ColumnText(f"c{i}", MAP.bounds, MAP.highest) for i in range(4)]
    return text_of(ensemble, objective, columns)


def plain_tree(bins, gradient, hessian, growth, depth):
    """The reference: recursion and float sums over rows, nothing shared with the code under test.

    A leaf is its value, a split ``(feature, bin, left, right)``.
    """
    weight = hessian.sum() + growth.penalty
    value = -growth.learning_rate * gradient.sum() / weight
    if depth == 0:
        return value

    def quality(rows):
        return gradient[rows].sum() ** 2 / (hessian[rows].sum() + growth.penalty)

    best = (1e-9, None, None)
    for feature in range(len(bins)):
        for at in range(bins[feature].max()):
            left = bins[feature] <= at
            if min(left.sum(), (~left).sum()) < growth.min_node_rows:
                continue
            gain = quality(left) + quality(~left) - quality(np.full(len(gradient), True))
            # So much greater that rounding does not decide between two of the same partition.
            if gain > best[0] * (1 + 1e-9):
                best = (gain, feature, at)
    _, feature, at = best
    if feature is None:
        return value
    left = bins[feature] <= at
    below, above = (
        plain_tree(bins[:, side], gradient[side], hessian[side], growth, depth - 1)
        for side in (left, ~left)
    )
    return (feature, at, below, above)


def shape_of(tree, node=0):
    if node not in tree.splits:
        return tree.leaves[node].value
    split, left, right = tree.splits[node]
    return (split.feature, split.bin, shape_of(tree, left), shape_of(tree, right))


def predicted(shape, bins):
    if not isinstance(shape, tuple):
        return np.full(bins.shape[1], shape)
    feature, at, left, right = shape
    return np.where(bins[feature] <= at, predicted(left, bins), predicted(right, bins))


def assert_same(found, expected):
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and found[:2] == expected[:2]
        assert_same(found[2], expected[2])
        assert_same(found[3], expected[3])
    else:
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_one_party_grows_the_plain_boosters_trees():
    _, columns, labels = table()
    for objective in (BINARY, SQUARE, SOFTMAX):
        how = declared(objective)
        label = objective.scaled(labels[objective.task])
        ensemble = learn(columns, labels[objective.task], how, Alone())
        bins = quantiles.bins_of(columns, ensemble.edges)
        scores = np.repeat(np.array(ensemble.facts.initial)[:, None], label.size, axis=1)
        for trees in ensemble.trees:
            if objective.task == "binary":
                chance = 1 / (1 + np.exp(-scores))
                made = [(chance[0] - label, chance[0] * (1 - chance[0]))]
            elif objective.task == "regression":
                made = [(scores[0] - label, np.ones_like(label))]
            else:
                shares = np.exp(scores) / np.exp(scores).sum(axis=0)
                made = [(p - (label == k), 1.5 * p * (1 - p)) for k, p in enumerate(shares)]
            for at, (gradient, hessian) in enumerate(made):
                expected = plain_tree(bins, gradient, hessian, how.growth, how.growth.depth)
                assert_same(shape_of(trees[at]), expected)
                scores[at] += predicted(expected, bins)
        assert len(ensemble.trees) == how.trees


def test_stock_lightgbm_loads_the_text_and_scores_raw_rows_alike():
    raw, columns, labels = table()
    for objective in (BINARY, SQUARE, SOFTMAX):
        ensemble = learn(columns, labels[objective.task], declared(objective), Alone())
        booster = lightgbm.Booster(model_str=text(ensemble, objective))
        # A bucket's last value in the raw unit, and the next float, which lies in the next bucket.
        rows = [raw.T]
        for edge in ensemble.edges[1]:
            at = MAP.highest(edge)
            for value in (at, np.nextafter(at, 9.0)):
                row = raw.T[:1].copy()
                row[0, 1] = value
                rows.append(row)
                cell = int(MAP.encode(np.array([value]))[0] > edge)
                assert cell == (value != at)
        matrix = np.concatenate(rows)
        again = quantiles.bins_of([MAP.encode(c) for c in matrix.T], ensemble.edges)
        whole = np.array(
            [
                sum(predicted(shape_of(trees[k]), again) for trees in ensemble.trees)
                * objective.unit
                + objective.raw(start)
                for k, start in enumerate(ensemble.facts.initial)
            ]
        ).T
        found = booster.predict(matrix, raw_score=True).reshape(whole.shape)
        np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12)
        # Explanations need the row counts of the nodes.
        explained = booster.predict(raw.T, pred_contrib=True)
        assert np.isfinite(explained).all() and np.abs(explained).max() > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 4))
def test_histograms_of_parts_add_up_to_those_of_the_whole(seed, count, parts):
    random = np.random.default_rng(seed)
    widths = tuple(int(w) for w in random.integers(1, 9, 3))
    bins = np.array([random.integers(0, w, count) for w in widths])
    gradient, hessian = random.integers(-BOUND, BOUND, (2, count))
    nodes = random.integers(0, 5, count)
    opened = [1, 2, 4]

    def of(rows):
        made = Derivatives.of(gradient[rows], hessian[rows])
        return histogram.histograms(Rows(bins[:, rows], widths), made, nodes[rows], opened)

    whole = of(np.arange(count))
    assert whole.size == histogram.size_of(widths, opened)
    shares = np.array_split(random.permutation(count), parts)
    assert (sum(of(share) for share in shares) == whole).all()
    by_hand = np.zeros((len(opened), sum(widths), SUMS), dtype=object)
    begins = [0, *np.cumsum(widths)]
    for row in range(count):
        if nodes[row] in opened:
            for feature, begin in enumerate(begins[:-1]):
                by_hand[opened.index(nodes[row]), begin + bins[feature, row]] += (
                    int(gradient[row]), int(hessian[row]), 1
                )  # fmt: skip
    assert (whole.reshape(by_hand.shape) == by_hand).all()


def test_the_printed_gain_would_split_what_gains_nothing():
    # Errata: with the parent's term added, a split of like from like looks worth making.
    growth = Growth(depth=1, learning_rate=1.0, penalty=0.0, min_node_rows=1)
    sums = np.array([[[-8 * ONE, 8 * ONE, 8], [-8 * ONE, 8 * ONE, 8]]], dtype=np.int64)
    leaves, splits = histogram.decide(sums.ravel(), [2], [False], growth)
    assert splits == [None]
    assert leaves[0].value == 1.0 and leaves[0].rows == 16
    g, h = sums[0, :, 0] / ONE, sums[0, :, 1] / ONE
    children, parent = (g**2 / h).sum(), g.sum() ** 2 / h.sum()
    assert children - parent == 0 < children + parent


def test_equal_gains_go_to_the_first_feature_and_the_lowest_bin():
    growth = Growth(depth=1, learning_rate=1.0, penalty=1.0, min_node_rows=1)
    part = [[-4 * ONE, 4 * ONE, 4], [0, 0, 0], [4 * ONE, 4 * ONE, 4]]
    sums = np.array([[*part, *part]], dtype=np.int64)
    _, (split,) = histogram.decide(sums.ravel(), [3, 3], [False] * 2, growth)
    assert (split.feature, split.bin) == (0, 0)


def test_sums_that_might_overflow_are_refused_before_anything_is_summed():
    most = (1 << 63) // (BOUND * 32)
    require_room(most - 1, 32)
    with pytest.raises(ConfigError, match="overflow"):
        require_room(most, 32)
    with pytest.raises(ContractError, match="outside its declared bounds"):
        SQUARE.scaled(np.array([0.0, 41.0]))
    with pytest.raises(ContractError, match="single class"):
        BINARY.initial([5, 0, 5])


class Wrong(Alone):
    """An active party whose decisions do not fit."""

    def __init__(self, phase, spoil):
        self._phase, self._spoil = phase, spoil

    def step(self, name, size, vector, decide, form, bounds=()):
        made = super().step(name, size, vector, decide, form)
        return self._spoil(made) if name.phase == self._phase else made


def spoilt_split(made):
    (split,) = made.splits[0]
    return made.model_copy(update={"splits": ((split.model_copy(update={"feature": 4}),),)})


@pytest.mark.parametrize(
    ("phase", "spoil"),
    [
        ("trees", spoilt_split),
        ("facts", lambda made: made.model_copy(update={"missing": (1,)})),
        ("trees", lambda made: made.model_copy(update={"roots": ()})),
        ("trees", lambda made: made.model_copy(update={"splits": ()})),
        # A search that does not narrow would never end.
        ("lookup", lambda _: Lookup(searches=quantiles.begin((MAP.domain,) * 4, 16))),
    ],
)
def test_decisions_that_do_not_fit_their_round_are_refused(phase, spoil):
    _, columns, labels = table(rows=200)
    with pytest.raises(ContractError, match="does not fit the round"):
        learn(columns, labels["binary"], declared(BINARY), Wrong(phase, spoil))
