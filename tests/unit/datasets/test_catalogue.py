"""What the catalogue says of a table is true of it."""

import os

import pytest

from opboost_ops.datasets import NAMES, load
from opboost_ops.datasets.catalogue import CATALOGUE
from opboost_ops.datasets.public import FOLDER

#: Without a folder of public tables there is only the generated one.
HERE = NAMES if os.environ.get(FOLDER) else ("credit",)


@pytest.mark.parametrize("name", HERE)
def test_an_entry_describes_its_table(name: str) -> None:
    entry, dataset = CATALOGUE[name], load(name)
    assert entry.task == dataset.task
    assert entry.rows == dataset.tables[dataset.label_holder].height
    counts = {party: len(features) for party, features in dataset.features.items()}
    own = counts.pop(dataset.label_holder)
    assert entry.columns == (own, sum(counts.values()))
    words = {0.2: "20 % at random", 1 / 3: "a third at random"}
    share = dataset.holdout
    assert entry.split == (words[share] if isinstance(share, float) else "the official test file")
