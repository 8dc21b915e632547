"""The model file: stock LightGBM reads it, and nothing in it is exact about the data."""

import re

import numpy as np
import pytest

from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Parameters, Private
from opboost_ops.learning.private import trainer as dp
from opboost_ops.learning.private.backend import model_text
from tests.unit.learning.private.tables import mixed

SETTINGS = {
    "binary": Parameters("binary", 2, 8, 0.1, 4, 0, trainer="dpboost", private=Private(20.0, 4)),
    "regression": Parameters(
        "regression", 0, 8, 0.1, 4, 0, trainer="dpboost", private=Private(20.0, 4, 0.1, (10, 30))
    ),
}


@pytest.mark.parametrize("task", SETTINGS)
def test_stock_lightgbm_predicts_what_the_trees_say(task: str) -> None:
    frame, label = mixed(3000, 0)
    frame.matrix[:30, 2] = np.nan  # An unknown category goes right at every split.
    settings = SETTINGS[task]
    truth = label if task == "binary" else 10 + 20 * label
    found = dp.fit(frame, truth, settings)
    bounds = dp.label_bounds(settings)
    text = model_text(found.trees, found.candidates, settings, bounds)
    codes = found.candidates.codes(frame.matrix)
    score = sum(0.1 * t.values(codes, found.candidates) for t in found.trees)
    expected = 1 / (1 + np.exp(-2 * score)) if task == "binary" else 20 + 10 * score
    assert np.allclose(trainer.predict(text, frame.matrix), expected, rtol=0, atol=1e-12)
    splits = trainer.model_of(text).split_counts()
    assert sum(splits.values()) == 8 * 15
    assert any("num_cat=0" not in line for line in text.split("\n") if line.startswith("num_cat"))
    shap = trainer.contributions(text, frame.matrix[:40])
    assert np.isfinite(shap).all()
    assert np.abs(shap).max() > 0


def test_each_node_counts_the_leaves_below_it() -> None:
    """SHAP values weight both children of a node by their counts, which show nothing of rows."""
    frame, label = mixed(300, 0)
    found = dp.fit(frame, label, SETTINGS["binary"])
    text = model_text(found.trees, found.candidates, SETTINGS["binary"], (0.0, 1.0))
    for key in ("internal_count", "internal_weight"):
        lines = re.findall(rf"^{key}=(.*)$", text, flags=re.M)
        assert lines == ["16 8 8 4 4 4 4 2 2 2 2 2 2 2 2"] * 8


def test_codes_are_thresholds_below_a_value_or_its_category() -> None:
    frame, _ = mixed(5, 0)
    matrix = np.array(
        [[0.4, 0.5, -1, 0], [0.5, 9.5, 0, 39], [0.6, 9.6, 4, 40], [99, -9, np.nan, 3]]
    )
    codes = dp.Candidates.of(frame.names, frame.thresholds, frame.categories).codes(matrix)
    assert codes.T.tolist() == [[0, 0, 1, 10], [0, 9, 10, 0], [5, 0, 4, 5], [0, 39, 40, 3]]


def test_nothing_but_splits_and_noisy_leaves_depends_on_the_data() -> None:
    """Two wholly different tables: files differ in thresholds, features and leaf values alone."""
    settings = SETTINGS["binary"]
    texts = []
    for seed, rows in ((0, 500), (1, 40)):
        frame, label = mixed(rows, seed)
        found = dp.fit(frame, label, settings)
        text = model_text(found.trees, found.candidates, settings, (0, 1))
        drawn = r"^(split_feature|threshold|decision_type|leaf_value|num_cat|cat_\w+)=.*\n"
        texts.append(re.sub(drawn, "", text, flags=re.M))
    assert texts[0] == texts[1]
    assert "leaf_count=1 1 1 1" in texts[0]
    assert "feature_infos=[0.5:9.5] [0.5:9.5] 0:1:2:3:4 0:1" in texts[0]
