"""Entries of a ledger, read from their text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from opboost_ops.privacy.ledger.entries import LedgerEntry, entry_of
from opboost_ops.privacy.loss import LossCurve

CURVES = [
    LossCurve(mechanism="M, 1", epsilon=1.0, loss=(0.1, 0.7), certificate=True),
    LossCurve(mechanism='N "2"', epsilon=2.0, loss=(0.3, "inf"), certificate=False),
]
#: Digests as they are, and what none of ours would be.
DIGESTS = st.sampled_from(["a" * 64, "b" * 64, "", "Z", 'q"\\', "é"])

ENTRIES = st.builds(
    LedgerEntry,
    federation=st.sampled_from(["f", "g", "all"]),
    run=st.sampled_from(["0" * 16, "1" * 16, "", "a b"]),
    party=st.just("bank"),
    receiver=st.sampled_from(["credit", "shop"]),
    kind=st.sampled_from(["release", "ranks", "edges"]),
    artifact=DIGESTS,
    account=st.sampled_from(["local_dp", "model", "exact"]),
    feature=st.sampled_from([None, "income", "income=missing", "debt", "a,b", 'x": "y']),
    column=st.sampled_from([None, "INCOME", "debt"]),
    release=st.sampled_from([None, "0" * 32]),
    loss=st.none() | st.sampled_from(CURVES),
    epsilon=st.sampled_from([None, 0.5]),
    rows=st.sampled_from([0, 7, 8]),
    discloses=st.sampled_from(["", 'how many, "rows": 5, and {"loss": null}']),
    experiment=st.booleans(),
)


@given(ENTRIES)
def test_an_entry_is_what_was_written(entry: LedgerEntry) -> None:
    assert entry_of(json.dumps(entry.model_dump(mode="json"))) == entry


@given(ENTRIES, st.data())
def test_a_cut_entry_is_refused(entry: LedgerEntry, data: st.DataObject) -> None:
    text = json.dumps(entry.model_dump(mode="json"))
    with pytest.raises(ValidationError):
        entry_of(text[: data.draw(st.integers(0, len(text) - 1))])
