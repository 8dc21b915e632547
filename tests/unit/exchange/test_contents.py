"""Contents and signatures of a partner's artifacts: those that break their form are refused."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.contents import (
    declared_keys,
    layout_of,
    opened,
    read_manifest,
    require_points,
    verify,
)
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed.ids import TAG
from opboost_ops.exchange.sealed.sealing import ROW_TAG
from opboost_ops.exchange.sealed.zero_shares import slots_for
from tests.federation_simulator import Files, Member, Simulation, flipped

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


def test_a_vector_is_the_file_of_its_kind() -> None:
    draft = Draft(kind="masked", about="bank", rows=1, vector=b"12345678", round="1")
    manifest, files = draft.seal(BANK.signer, "credit", RUN, "bank", experiment=False)
    assert opened(manifest, files, None, "here").vector(8) == b"12345678"


def judged(run: Simulation, files: Files) -> str:
    """The signer, by the keys that the federation declares."""
    manifest = read_manifest(files, "here")
    return verify(manifest, files, declared_keys(run.federation, manifest, "here"), "here")


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_lies_in_a_store_is_verified_by_declared_keys(encrypted: bool) -> None:
    """Also in the smallest federation, where one artifact names all parties."""
    run = Simulation(1, encrypted).until(None)
    for (kind, _), files in run.store.items():
        party = read_manifest(files, "here").party
        assert judged(run, files) == run.members[party].signer.public, kind


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("wrong_federation", {"federation": "other"}),
        ("unknown_party", {"by": "stranger"}),
        ("wrong_party", {"named": "b1"}),
        ("bad_signature", {"by": "stranger", "named": "b0"}),
        ("not_for_me", {"to": None}),
        ("not_for_me", {"to": "b1"}),
    ],
)
def test_what_nobody_declared_is_refused(reason: str, change: dict[str, Any]) -> None:
    run = Simulation()
    with pytest.raises(Rejected) as caught:
        judged(run, run.seal("ranks", "b0", **change))
    assert caught.value.reason == reason


def test_files_that_a_manifest_does_not_list_or_that_changed_are_refused() -> None:
    run = Simulation()
    files = run.seal("ranks", "b0")
    for reason, change in {
        "malformed": {**files, "more.bin.enc": b""},
        "bad_digest": {**files, "entries.bin.enc": files["entries.bin.enc"] + b"0"},
    }.items():
        with pytest.raises(Rejected) as caught:
            judged(run, change)
        assert caught.value.reason == reason
    plain = Simulation(1, encrypted=False)
    with pytest.raises(Rejected) as caught:
        judged(plain, flipped(plain.seal("ranks", "b0"), "entries.bin"))
    assert caught.value.reason == "bad_digest"
    for name in ("manifest.json", "manifest.sig"):
        with pytest.raises(Rejected) as caught:
            judged(run, {other: raw for other, raw in files.items() if other != name})
        assert caught.value.reason == "malformed"
