"""Entries of a ledger, read from their text."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from opboost_ops.privacy.events import Draw, Release, release_of
from opboost_ops.privacy.loss import LossCurve

CURVES = [
    LossCurve(mechanism="M, 1", epsilon=1.0, loss=(0.1, 0.7), certificate=True),
    LossCurve(mechanism='N "2"', epsilon=2.0, loss=(0.3, "inf"), certificate=False),
]
#: Digests as they are, and what none of ours would be.
DIGESTS = st.sampled_from(["a" * 64, "b" * 64, "", "Z", 'q"\\', "é"])

RELEASES = st.builds(
    Release,
    federation=st.sampled_from(["f", "g", "all"]),
    run=st.sampled_from(["0" * 16, "1" * 16, "", "a b"]),
    party=st.just("bank"),
    receiver=st.sampled_from(["credit", "shop"]),
    kind=st.sampled_from(["draw", "accepted", "ranks", "former"]),
    artifact=DIGESTS,
    account=st.sampled_from(["local_dp", "structural", "model", "exact"]),
    feature=st.sampled_from([None, "income", "income=missing", "debt", "a,b", 'x": "y']),
    column=st.sampled_from([None, UUID(int=1), UUID(int=2)]),
    cells=st.sampled_from([None, "k1", "k2"]),
    draws=st.none() | DIGESTS,
    draw=st.none()
    | st.builds(
        Draw,
        number=st.integers(0, 3),
        most=st.sampled_from([None, 4]),
        added=st.integers(0, 2),
        worst=st.integers(0, 12),
        base=st.integers(0, 1),
        inputs=st.just(10),
        stands_for=st.integers(0, 2),
    ),
    edges=st.sampled_from([(), (1.0, 2.5)]),
    span=st.sampled_from([None, (0.0, 9.0)]),
    loss=st.none() | st.sampled_from(CURVES),
    epsilon=st.sampled_from([None, 0.5]),
    rows=st.sampled_from([0, 7, 8]),
    discloses=st.sampled_from(["", 'how many, "rows": 5, and {"draw": null}']),
    experiment=st.booleans(),
)


@given(RELEASES)
def test_an_entry_is_what_was_written(release: Release) -> None:
    assert release_of(json.dumps(release.model_dump(mode="json"))) == release


@given(RELEASES, st.data())
def test_a_cut_entry_is_refused(release: Release, data: st.DataObject) -> None:
    text = json.dumps(release.model_dump(mode="json"))
    with pytest.raises(ValidationError):
        release_of(text[: data.draw(st.integers(0, len(text) - 1))])
