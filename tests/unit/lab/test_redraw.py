"""What lies behind released values is drawn back, by the law that the channel and they give."""

from typing import Any

import numpy as np
import pytest

from opboost_ops.boosting.denoise.shares import shares
from opboost_ops.boosting.frame import Frame
from opboost_ops.domain import Domain
from opboost_ops.lab.redraw import redrawn
from opboost_ops.mechanisms import BucketResponse, GlobalMap

DOMAIN = Domain(1, 20)
#: Three buckets of 20 values, of which the last is rare and tells the label.
MECHANISM = BucketResponse(epsilon=1.0, edges=(3, 12))
LAWS = np.array([[0.6, 0.38, 0.02], [0.3, 0.4, 0.3]])


def words(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(0, 2**64, rows, dtype=np.uint64)


def released(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, buckets from 1, and what the exact channel made of them."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    clear = np.array([rng.choice(3, p=LAWS[c]) for c in label])
    channel = MECHANISM.channel(DOMAIN)
    index = channel.alias.sample(np.array([0, 5, 15])[clear], words(rng, rows))
    return label, clear + 1, index + 1


def drawn(label: np.ndarray, *columns: np.ndarray, **changes: Any) -> np.ndarray:
    names = tuple(f"b.f{i}" for i in range(len(columns)))
    frame = Frame(names, np.asfortranarray(np.column_stack(columns).astype(float)), (), names)
    rng = np.random.default_rng(5)
    channels = dict.fromkeys(names, MECHANISM.channel(DOMAIN)) | changes
    return redrawn(
        frame, "binary", label, channels, {name: words(rng, len(label)) for name in names}
    ).matrix


def law(label: np.ndarray, column: np.ndarray) -> np.ndarray:
    return np.array([np.bincount(column[label == c].astype(int), minlength=4)[1:]
                     / (label == c).sum() for c in (0, 1)])  # fmt: skip


def test_the_law_of_clear_values_comes_back_in_each_class() -> None:
    label, clear, noisy = released(40_000)
    assert np.abs(law(label, noisy) - LAWS).max() > 0.15
    back = drawn(label, noisy)[:, 0]
    assert np.abs(law(label, back) - LAWS).max() < 0.02
    # Cells are drawn one by one, and nearer to the truth than by the class alone.
    by_class = (LAWS**2).sum(axis=1).mean()
    assert (back == clear).mean() > by_class + 0.03


def test_other_columns_tell_more_of_a_cell_than_the_class() -> None:
    """Of several releases of one value, the others tell what one cell was."""
    label, clear, noisy = released(20_000)
    channel = MECHANISM.channel(DOMAIN)
    rng = np.random.default_rng(1)
    same = [
        channel.alias.sample(np.array([0, 5, 15])[clear - 1], words(rng, len(clear))) + 1
        for _ in range(6)
    ]
    alone = (drawn(label, noisy)[:, 0] == clear).mean()
    helped = (drawn(label, noisy, *same)[:, 0] == clear).mean()
    assert helped > alone + 0.05


def test_shares_are_those_that_most_likely_gave_the_counts() -> None:
    channel = GlobalMap(epsilon=1.0).channel(Domain(1, 6)).probabilities()
    truth = np.array([0.4, 0.0, 0.1, 0.1, 0.0, 0.4])
    found = shares(1e6 * truth @ channel, channel)
    assert found.sum() == pytest.approx(1)
    assert np.abs(found @ channel - truth @ channel).max() < 5e-3
    assert np.abs(found - truth).max() < np.abs(truth @ channel - truth).max() / 2


def test_a_column_of_which_an_output_was_never_released_stays_as_it_is() -> None:
    label, _, noisy = released(5_000)
    few = np.minimum(noisy, 2)
    found = drawn(label, few, noisy)
    assert np.array_equal(found[:, 0], few)
    assert not np.array_equal(found[:, 1], noisy)
