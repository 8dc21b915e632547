"""Sealed rows and shares of a partner: entries that break the form of their kind are refused."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.contents import layout_of, opened, require_points
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed.ids import TAG
from opboost_ops.exchange.sealed.sealing import ROW_TAG
from opboost_ops.exchange.sealed.zero_shares import slots_for
from tests.federation_simulator import Member

RUN = "0" * 16
BANK = Member("bank")
ROWS, WIDTH = 20, 6
NONCE = "0" * 64

#: Two feature holders, so that a share has the width of one tag.
FEDERATION: Any = SimpleNamespace(feature_holders=("bank", "shop"))


def artifact(kind: Kind, document: Any, entries: np.ndarray, rows: int = ROWS) -> Artifact:
    draft = Draft(kind=kind, about="bank", rows=rows, document=document, entries=entries)
    manifest, files = draft.seal(BANK.signer, "credit", RUN, "bank", experiment=False)
    return opened(manifest, files, None, manifest.reference)


def rows_of(tags: list[int]) -> np.ndarray:
    entries = np.zeros((len(tags), ROW_TAG + WIDTH), np.uint8)
    entries[:, 1] = tags
    return entries


def reason(made: Artifact) -> str:
    with pytest.raises(Rejected) as caught:
        require_points(made, FEDERATION, "here")
    return caught.value.reason


LAYOUT = {"nonce": NONCE, "width": WIDTH}
GOOD = list(range(ROWS + 1))


def test_tags_of_sealed_rows_rise() -> None:
    require_points(artifact("routes", LAYOUT, rows_of(GOOD)), FEDERATION, "here")
    for tags in ([1, 0, *GOOD[2:]], [0, 0, *GOOD[2:]]):
        assert reason(artifact("routes", LAYOUT, rows_of(tags))) == "malformed"


@pytest.mark.parametrize("tags", [GOOD[:-1], [*GOOD, ROWS + 1]])
def test_sealed_rows_are_as_many_as_stated(tags: list[int]) -> None:
    assert reason(artifact("routes", LAYOUT, rows_of(tags))) == "wrong_row_count"


SHARES = {"nonce": NONCE, "width": TAG, "keys": [ROWS + 1], "numbers": [255]}


def shares(document: Any, slots: int) -> Artifact:
    return artifact("shares", document, np.zeros((slots, document["width"]), np.uint8))


def test_shares_have_the_width_and_length_that_follow_from_public_facts() -> None:
    slots = slots_for(ROWS + 1)
    require_points(shares(SHARES, slots), FEDERATION, "here")
    assert reason(shares(SHARES, slots - 1)) == "wrong_row_count"
    assert reason(shares({**SHARES, "keys": [ROWS]}, slots_for(ROWS))) == "wrong_row_count"
    assert reason(shares({**SHARES, "width": 2 * TAG}, slots)) == "malformed"


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "0" * 63},
        {"nonce": 0},
        {"width": -1},
        {"width": 1 << 17},
        {"width": 16.0},
        {"width": True},
        {"keys": [-1]},
        {"keys": [21.0]},
        {"keys": [10, 11]},
        {"keys": 21},
        {"numbers": [256]},
        {"numbers": []},
        {"more": 1},
    ],
)
def test_a_layout_that_is_none_is_malformed(change: dict[str, Any]) -> None:
    made = artifact("shares", {**SHARES, **change}, np.zeros((1, TAG), np.uint8))
    with pytest.raises(Rejected) as caught:
        layout_of(made)
    assert caught.value.reason == "malformed"


def test_the_widest_row_and_the_last_number_are_taken() -> None:
    layout = layout_of(
        artifact("shares", {**SHARES, "width": 1 << 16}, np.zeros((1, TAG), np.uint8))
    )
    assert (layout.width, layout.numbers) == (1 << 16, (255,))
