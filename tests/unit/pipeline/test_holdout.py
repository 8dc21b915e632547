"""Held-out rows follow from public facts of each ID, and from no other row."""

import hashlib
from uuid import UUID

from opboost_ops.pipeline.inputs.holdout import hashed_out

TOY = UUID(int=7)


def test_a_party_can_compute_by_hand_who_is_held_out() -> None:
    ids = [b"sann", b"sbob", b"i17"]
    numbers = [
        int.from_bytes(hashlib.blake2b(m, digest_size=8, key=TOY.bytes).digest(), "big")
        for m in ids
    ]
    assert hashed_out(TOY, 0.4, ids).tolist() == [n < 0.4 * 2**64 for n in numbers]


def test_a_row_more_moves_no_other_and_the_share_is_met() -> None:
    ids = [b"s%d" % i for i in range(20_000)]
    held_out = hashed_out(TOY, 0.2, ids)
    assert abs(held_out.mean() - 0.2) < 0.01
    assert (hashed_out(TOY, 0.2, ids[1:]) == held_out[1:]).all()
    # Another federation holds out others; a larger share, these and more.
    assert (hashed_out(UUID(int=8), 0.2, ids) != held_out).any()
    assert hashed_out(TOY, 0.3, ids)[held_out].all()
