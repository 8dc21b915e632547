"""Masked integers in few bytes: the sum is the same, and what is sent is uniform."""

import numpy as np
import pytest

from opboost_ops.exchange.rounds.masks import Masks, Packing, RunKey, sum_without_masks, width_of


@pytest.mark.parametrize(
    ("bound", "width"),
    [(0, 1), (127, 1), (128, 2), (32767, 2), (32768, 3), (2**62, 8), (2**63 - 1, 8)],
)
def test_a_width_holds_every_integer_up_to_its_bound(bound, width):
    assert width_of(bound) == width
    packing = Packing(2, (bound,))
    ends = np.array([bound, -bound], dtype=np.int64)
    raw = packing.packed(ends.view(np.uint64))
    assert len(raw) == packing.length == 2 * width
    assert (packing.signed_sum(packing.unpacked(raw).view(np.int64)) == ends).all()


def masks_of(names):
    keys = {name: RunKey(bytes([i + 1]) * 32) for i, name in enumerate(names)}
    return {
        name: Masks(name, key, {o: k.public for o, k in keys.items() if o != name}, "session")
        for name, key in keys.items()
    }


@pytest.mark.parametrize("bounds", [(), (300, 70_000, 2**40), (2**61, 2**59, 2**29)])
def test_packed_vectors_add_up_to_the_sum(bounds):
    masks, random = masks_of(["a", "b", "c"]), np.random.default_rng(0)
    each = np.array(bounds or [2**62] * 3) // 3
    vectors = {name: random.integers(-each, each + 1, (50, 3)).ravel() for name in masks}
    packing = Packing(150, bounds)
    sent = {name: packing.packed(masks[name].mask("one", v)) for name, v in vectors.items()}
    total = packing.signed_sum(sum_without_masks([packing.unpacked(raw) for raw in sent.values()]))
    assert (total == sum(vectors.values())).all()
    assert {len(raw) for raw in sent.values()} == {50 * sum(map(width_of, bounds or [2**62] * 3))}


def test_what_is_sent_is_uniform_in_every_byte():
    masks = masks_of(["a", "b", "c"])["b"]
    packing = Packing(60_000, (300, 2**20))
    raw = np.frombuffer(packing.packed(masks.mask("one", np.zeros(60_000, np.int64))), np.uint8)
    for column in raw.reshape(-1, 5).T:
        counts = np.bincount(column, minlength=256)
        # 255 degrees of freedom: 400 is beyond 7 standard deviations.
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 400


def test_an_integer_beyond_its_bound_does_not_fit():
    packing = Packing(4, (10, 1000))
    assert packing.fits(np.array([10, 1000, -10, -1000]), 3)
    assert not packing.fits(np.array([11, 0, 0, 0]), 3)
    assert not packing.fits(np.array([0, 0, 0, -1001]), 3)
    with pytest.raises(ValueError):
        Packing(3, (10, 1000))
