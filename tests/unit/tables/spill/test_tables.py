"""Rows of tables that wait on the disk come back in their order, with all their columns."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.tables.spill.arrays import Scratch, slices
from opboost_ops.tables.spill.tables import reorder


@settings(max_examples=20)
@given(st.integers(1, 60), st.lists(st.text(max_size=9), min_size=1, max_size=80), st.integers(1))
def test_rows_come_in_the_order_of_their_places(held: int, texts: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.permutation(len(texts)).astype(np.uint32)
    numbers = np.where(rng.random(len(texts)) < 0.2, np.nan, rng.normal(size=len(texts)))
    table = pa.table({"id": pa.array(texts, pa.large_string()), "x": numbers})
    size = int(rng.integers(1, len(texts) + 1))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(Path(folder), held)
        # A block may have no row that is wanted.
        pieces = [(places[:0], table.slice(0, 0))]
        pieces += [(places[at], table.slice(at.start, size)) for at in slices(len(texts), size)]
        parts = list(reorder(scratch, iter(pieces), len(texts)))
        assert not os.listdir(folder)
    found = pa.concat_tables(parts)
    assert found.schema == table.schema
    wanted = table.take(np.argsort(places))
    assert found.column("id").to_pylist() == wanted.column("id").to_pylist()
    assert found.column("x").to_numpy().tobytes() == wanted.column("x").to_numpy().tobytes()
    if len(texts) > held:
        assert max(part.num_rows for part in parts) <= max(held // 4, 1)
    else:
        assert len(parts) == 1
