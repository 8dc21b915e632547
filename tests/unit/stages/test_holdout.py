"""Held-out rows follow from public facts of each ID, and from no other row."""

import hashlib
from uuid import UUID

import numpy as np
import polars as pl
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.stages.holdout import hashed_out, held_out_in
from tests.unit.config.test_agreement import federation

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


def test_a_declared_column_decides_or_is_refused() -> None:
    declared = federation(training={"holdout": {"column": "late"}})
    block = pl.DataFrame({"late": [True, False]})
    assert np.array_equal(held_out_in(declared, block), [True, False])
    with pytest.raises(ContractError, match="not boolean"):
        held_out_in(declared, pl.DataFrame({"late": [True, None]}))
