"""An artifact of several files: sealed, stored and read with one part in memory at a time."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.contents import listed_sizes, opened, require_points, verify
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.files import Files
from opboost_ops.exchange.manifest import Manifest, parse_manifest
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed import parts
from opboost_ops.exchange.store.store import Store
from tests.federation_simulator import Member

RUN = "0" * 16
PLACE = f"credit/{RUN}/psi_query/bank"
LABEL, BANK = Member("credit"), Member("bank")


class Counted(Sequence[np.ndarray]):
    """Parts that say how often they were asked for, and can be changed."""

    def __init__(self) -> None:
        self.asked = 0
        self.parts = [np.full((50, 32), 1 + i, dtype=np.uint8) for i in range(4)]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, number):  # type: ignore[no-untyped-def]
        self.asked += 1
        return self.parts[number]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART", 50)


def sealed(entries: Sequence[np.ndarray], encrypted: bool) -> Mapping[str, bytes]:
    draft = Draft(kind="psi_query", about="bank", rows=199, discloses="", entries=entries)
    envelope = Envelope(LABEL.secret, BANK.private.public) if encrypted else None
    return draft.seal(LABEL.signer, "credit", RUN, "credit", False, envelope)[1]


def read(store: Store, encrypted: bool) -> Artifact:
    def admit(heads: Mapping[str, bytes]) -> Mapping[str, int]:
        return listed_sizes(parse_manifest(heads["manifest.json"], PLACE))

    files = store.get(PLACE, admit)
    assert isinstance(files, Files)
    manifest: Manifest = parse_manifest(files["manifest.json"], PLACE)
    return opened(manifest, files, BANK.private.decrypt if encrypted else None, PLACE)


@pytest.mark.parametrize("encrypted", [False, True])
def test_parts_go_through_a_store_one_by_one(store: Store, encrypted: bool) -> None:
    entries = Counted()
    files = sealed(entries, encrypted)
    assert len([name for name in files if name.startswith("entries-")]) == 4
    before = entries.asked
    assert store.put_once(PLACE, files)
    assert entries.asked > before
    artifact = read(store, encrypted)
    assert artifact.parts == 4
    for number, part in enumerate(entries.parts):
        assert (artifact.part(number, 32) == part).all()
    # A retry makes the same bytes, and finds them there.
    assert not store.put_once(PLACE, sealed(Counted(), encrypted))
    other = Counted()
    other.parts[2][7] = 9
    with pytest.raises(ArtifactError, match="already published something else"):
        store.put_once(PLACE, sealed(other, encrypted))


def test_a_part_that_was_changed_is_refused_before_it_is_used() -> None:
    files = dict(sealed(Counted(), encrypted=False))
    manifest = parse_manifest(files["manifest.json"], PLACE)
    assert verify(manifest, files, [LABEL.signer.public], PLACE) == LABEL.signer.public
    files["entries-0002.bin"] = bytes(len(files["entries-0002.bin"]))
    with pytest.raises(Rejected) as caught:
        verify(manifest, files, [LABEL.signer.public], PLACE)
    assert caught.value.reason == "bad_digest"


def test_the_canary_may_need_a_part_of_its_own() -> None:
    draft = Draft(kind="psi_query", about="bank", rows=50, entries=Counted().parts[:2])
    manifest, files = draft.seal(LABEL.signer, "credit", RUN, "credit", False)
    assert opened(manifest, files, None, PLACE).parts == 2


def test_no_part_is_kept(store: Store) -> None:
    entries = Counted()
    store.put_once(PLACE, sealed(entries, encrypted=True))
    artifact = read(store, encrypted=True)
    assert artifact.part(1, 32) is not artifact.part(1, 32)
    raw = artifact.files["entries-0001.bin"]
    assert raw is not artifact.files["entries-0001.bin"]


def test_a_part_that_changes_at_home_is_never_encrypted(store: Store) -> None:
    """Two contents under one key and nonce would show what they have not in common."""
    entries = Counted()
    files = sealed(entries, encrypted=True)
    entries.parts[3][0] ^= 1
    with pytest.raises(ArtifactError, match=r"entries-0003.bin changed at home"):
        store.put_once(PLACE, files)
    assert store.get(PLACE) is None


def test_parts_that_do_not_fit_the_rows_are_no_form_of_the_kind(store: Store) -> None:
    entries = Counted()
    entries.parts = entries.parts[:2]
    store.put_once(PLACE, sealed(entries, encrypted=False))
    with pytest.raises(Rejected, match="its files are not those it lists"):
        read(store, encrypted=False)


def swapped_rows(parts: list[np.ndarray]) -> None:
    parts[1][[7, 8]] = parts[1][[8, 7]]


def repeated_row(parts: list[np.ndarray]) -> None:
    parts[1][8] = parts[1][7]


def row_of_the_next_part(parts: list[np.ndarray]) -> None:
    parts[1][-1, 0] = 2 << 6


@pytest.mark.parametrize("change", [swapped_rows, repeated_row, row_of_the_next_part])
def test_points_rise_within_the_part_that_their_bytes_name(
    store: Store, change: Callable[[list[np.ndarray]], None]
) -> None:
    entries = Counted()
    for number, part in enumerate(entries.parts):
        part[:, 0], part[:, 1] = number << 6, np.arange(50)
    store.put_once(PLACE, sealed(entries, encrypted=False))
    require_points(read(store, encrypted=False), None, PLACE)  # type: ignore[arg-type]
    store.remove_run("credit", RUN)
    change(entries.parts)
    store.put_once(PLACE, sealed(entries, encrypted=False))
    with pytest.raises(Rejected) as caught:
        require_points(read(store, encrypted=False), None, PLACE)  # type: ignore[arg-type]
    assert caught.value.reason == "malformed"
