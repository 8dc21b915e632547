"""Missing values in horizontal learning: declared, one more bin, left or right by gain."""

import lightgbm
import numpy as np
import pytest

from opboost_ops.config.columns import SharedColumn
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.errors import ContractError
from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.learning.federboost import histogram
from opboost_ops.learning.federboost.federboost import Settings, learn
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.histogram_text import ColumnText, text_of
from opboost_ops.learning.federboost.objectives import ONE, Objective
from tests.together import Table

MAP = DomainMap(Domain(1, 4096), (-5.0, 5.0))
SQUARE = Objective("regression", bounds=(-40.0, 40.0))
KEEPS = (True, True, False, True)
COLUMNS = [SharedColumn(f"c{i}", f"c{i}", MAP, None, b"", keep) for i, keep in enumerate(KEEPS)]


def table(rows=900, seed=5):
    """Raw columns of which two miss values, which say something; the last one misses none."""
    random = np.random.default_rng(seed)
    raw = random.normal(size=(4, rows))
    gone = random.random((2, rows)) < [[0.3], [0.1]]
    label = raw[0] + raw[2] + np.where(gone[0], 1.5, 0.0) - np.where(gone[1], 2.0, 0.0)
    raw[:2][gone] = np.nan
    return raw, 3 * np.clip(label + 0.2 * random.normal(size=rows), -12, 12)


def declared(trees=6, depth=3, penalty=0.0, buckets=16):
    growth = Growth(depth=depth, learning_rate=0.2, penalty=penalty, min_node_rows=15)
    return Settings(SQUARE, (MAP.domain,) * 4, trees, buckets, growth, KEEPS)


def encoded(raw):
    return [column.integers(values) for column, values in zip(COLUMNS, raw, strict=True)]


def text(ensemble):
    columns = [ColumnText(c.name, c.bounds, c.threshold, c.keeps) for c in COLUMNS]
    return text_of(ensemble, SQUARE, columns)


def binned(how, columns, ensemble):
    """Bins as LightGBM is given them: NaN where a value is missing."""
    rows = how.binned(columns, ensemble.edges)
    found = rows.bins.T.astype(float)
    for at, keep in enumerate(rows.keeps):
        if keep:
            found[rows.bins[at] == rows.widths[at] - 1, at] = np.nan
    return found


def test_lightgbm_grows_the_same_trees_of_the_same_bins():
    raw, label = table()
    how, columns = declared(), encoded(raw)
    ensemble = learn(columns, label, how, Alone())
    bins = binned(how, columns, ensemble)
    assert (np.isnan(bins) == np.isnan(raw.T)).all()
    parameters = {
        "objective": "regression", "learning_rate": 0.2, "max_depth": 3, "num_leaves": 8,
        "min_data_in_leaf": 15, "min_sum_hessian_in_leaf": 0, "min_data_in_bin": 1,
        "verbosity": -1, "num_threads": 1,
    }  # fmt: skip
    stock = lightgbm.train(parameters, lightgbm.Dataset(bins, label), how.trees)
    ours = lightgbm.Booster(model_str=text(ensemble))
    np.testing.assert_allclose(ours.predict(raw.T), stock.predict(bins), rtol=1e-5, atol=1e-5)
    splits = [s for (tree,) in ensemble.trees for s, _, _ in tree.splits.values()]
    ways = {s.missing for s in splits if KEEPS[s.feature]}
    assert ways == {"left", "right"}, "both are tried"
    # Of a column that may miss values and misses none, they go left, as LightGBM has it.
    assert {s.missing for s in splits if s.feature == 3} <= {"left"}


def test_parties_together_are_one_party_and_who_misses_none_changes_no_message():
    raw, label = table()
    raw[0, :300] = np.nan_to_num(raw[0, :300])
    raw[1, :300] = np.nan_to_num(raw[1, :300])
    how, columns = declared(trees=3), encoded(raw)
    parts = [slice(0, 300), slice(300, 500), slice(500, 900)]
    meeting = Table(3)
    found = meeting.run(
        lambda rounds, i: learn([c[parts[i]] for c in columns], label[parts[i]], how, rounds)
    )
    alone = learn(columns, label, how, Alone())
    assert {text(each) for each in found} == {text(alone)}
    assert alone.facts.missing == tuple(int(np.isnan(raw[at]).sum()) for at in (0, 1, 3))


def test_bucket_ends_are_those_of_the_values_that_are_there():
    raw, label = table()
    how, columns = declared(trees=1, buckets=7), encoded(raw)
    ensemble = learn(columns, label, how, Alone())
    for at in range(4):
        there = np.sort(columns[at][~np.isnan(raw[at])])
        wanted = [int(there[-(-j * len(there) // 7) - 1]) for j in range(1, 7)]
        assert list(ensemble.edges[at]) == sorted(set(wanted))


def test_a_column_that_is_missing_everywhere_splits_nothing():
    raw, label = table(200)
    raw[0] = np.nan
    how = declared(trees=2)
    ensemble = learn(encoded(raw), label, how, Alone())
    used = {s.feature for (tree,) in ensemble.trees for s, _, _ in tree.splits.values()}
    assert 0 not in used and ensemble.edges[0] == ()
    assert np.isfinite(lightgbm.Booster(model_str=text(ensemble)).predict(raw.T)).all()


def test_what_is_missing_can_be_split_from_all_that_is_there():
    growth = Growth(depth=1, learning_rate=1.0, penalty=0.0, min_node_rows=1)
    # Two bins of values that are alike, and a bin of missing ones.
    sums = np.array([[[-2 * ONE, 4 * ONE, 4], [-2 * ONE, 4 * ONE, 4], [4 * ONE, 4 * ONE, 4]]])
    _, (split,) = histogram.decide(sums.ravel(), [3], [True], growth)
    assert (split.bin, split.missing) == (1, "right")
    assert (split.left.rows, split.right.rows) == (8, 4)
    raw = np.where(np.arange(60) % 3 == 0, np.nan, np.linspace(-4.9, 4.9, 60))
    how = Settings(SQUARE, (MAP.domain,), 1, 4, Growth(1, 1.0, 0.0, 5), (True,))
    label = np.where(np.isnan(raw), 6.0, 2.0)
    ensemble = learn([COLUMNS[0].integers(raw)], label, how, Alone())
    column = ColumnText("c0", MAP.bounds, MAP.highest, True)
    booster = lightgbm.Booster(model_str=text_of(ensemble, SQUARE, [column]))
    # Values beyond the bounds are clipped in training: they are there all the same.
    asked = np.array([[np.nan], [-4.9], [4.9], [1e9], [-1e9]])
    np.testing.assert_allclose(booster.predict(asked), [6, 2, 2, 2, 2], atol=1e-6)


def test_an_infinite_value_is_not_a_missing_one():
    assert COLUMNS[0].integers(np.array([np.nan, 5.0])).tolist() == [4097, 4096]
    with pytest.raises(ContractError):
        COLUMNS[0].integers(np.array([np.inf]))
    with pytest.raises(ContractError):
        COLUMNS[2].integers(np.array([np.nan]))
