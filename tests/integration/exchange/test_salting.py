"""What a reader of the store can find out about a small encrypted file: not even by trying all."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.encryption import Envelope, PrivateKey, new_encryption_key
from opboost_ops.exchange.files import FEW, STEP, salted, unsalted
from opboost_ops.exchange.manifest import MANIFEST, Kind, Manifest
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import Signer
from tests.federation import Workspace
from tests.federation_simulator import Member

RUN = "0123456789abcdef"
BANK: Signer = Member("bank").signer
PRIVATE, PUBLIC = new_encryption_key(b"l" * 32)


def sealed(
    draft: Draft, secret: bytes = b"s" * 32, run: str = RUN
) -> tuple[Manifest, dict[str, bytes]]:
    return draft.seal(BANK, "toy", run, "bank", False, Envelope(secret, PUBLIC))


def one_row(kind: Kind, values: tuple[int, ...]) -> Draft:
    names = tuple(f"f{i}" for i in range(len(values)))
    # Of sealed rows this is the plaintext, before any seal.
    rows = np.array([values], dtype="<u4").view(np.uint8).reshape(1, -1)
    return Draft(
        kind=kind,
        about="bank",
        entries=rows,
        rows=1,
        columns=names,
        answers="a" * 64,
        discloses="",
    )


def splits(value: float) -> Draft:
    return Draft(
        kind="split_values",
        about="bank",
        document={"splits": {"f0": {"3": value}}},
        rows=1,
        columns=("f0",),
        answers="a" * 64,
        discloses="",
    )


#: All that the files may hold, where a person's exact answer is one of it.
CANDIDATES: dict[str, list[Draft]] = {
    "routes": [one_row("routes", (a, b)) for a in range(5) for b in range(4)],
    # Values of a domain that needs one, two or four bytes.
    "values": [one_row("values", (v,)) for v in (*range(1, 65), 255, 256, 1000, 70_000)],
    "split_values": [splits(v) for v in (1, 2.5, 10**6 + 0.5, 1 / 3, -1e-300, 0.1 + 0.2)],
}


def contents(draft: Draft) -> bytes:
    if draft.entries is not None:
        return np.asarray(draft.entries).tobytes()
    return json.dumps(draft.document, separators=(",", ":"), allow_nan=False).encode()


def public(files: dict[str, bytes]) -> Any:
    """Whatever a reader of the store sees, but for what must look random."""
    manifest = json.loads(files[MANIFEST])
    for file in manifest["files"].values():
        assert len(file.pop("sha256")) == 64
    return manifest, {name: len(raw) for name, raw in files.items()}


@pytest.mark.parametrize("kind", CANDIDATES)
def test_all_candidates_look_the_same(kind: str) -> None:
    """It was the sha256 of the plaintext: the right one of the candidates was found at once."""
    drafts = CANDIDATES[kind]
    plain = [contents(draft) for draft in drafts]
    assert len(set(plain)) == len(plain) > 5
    if kind == "split_values":
        assert len({len(raw) for raw in plain}) > 1
    seen = [sealed(draft) for draft in drafts]
    assert all(public(files) == public(seen[0][1]) for _, files in seen)
    # No guess of a content, alone or framed as the file is but for the salt, is in what is public.
    name = next(iter(seen[0][0].files))
    size = seen[0][0].files[name].size
    guesses = set()
    for raw in plain:
        framed = salted(raw, bytes(32), 1, len(drafts[0].columns))
        assert len(framed) == size
        for guess in (raw, framed, framed[32:], framed[40:]):
            guesses |= {hashlib.sha256(guess).hexdigest()}
    for manifest, files in seen:
        told = b"".join(files.values()).decode("latin-1") + manifest.digest
        assert not any(guess in told or guess[:16] in told for guess in guesses)


@pytest.mark.parametrize("kind", CANDIDATES)
def test_nothing_links_one_content_to_itself(kind: str) -> None:
    """The same answer in two runs, of two parties or at two places has nothing in common."""
    draft = CANDIDATES[kind][0]
    digests = set()
    for secret, run in ((b"s" * 32, RUN), (b"t" * 32, RUN), (b"s" * 32, "f" * 16)):
        manifest, _ = sealed(draft, secret, run)
        digests |= {file.sha256 for file in manifest.files.values()}
    assert len(digests) == 3
    # A retry makes the same bytes.
    assert sealed(draft) == sealed(draft)


def test_no_digest_in_a_store_is_that_of_a_plaintext(trained_once: Workspace) -> None:
    checked = 0
    for folder, manifest, files in encrypted(trained_once):
        site = trained_once.site(folder)
        private = PrivateKey.from_file(site.encryption_key)
        inside = opened(manifest, files, private.decrypt, "x").files
        everything = b"".join(files.values()).decode("latin-1") + manifest.digest
        for name in manifest.files:
            assert hashlib.sha256(inside[name]).hexdigest()[:16] not in everything
            assert manifest.files[name].size % STEP == 0
            checked += 1
    assert checked >= 10


def encrypted(run: Workspace) -> Iterator[tuple[str, Manifest, dict[str, bytes]]]:
    """Encrypted artifacts, with the folder of the party that opens them."""
    from opboost_ops.exchange.manifest import parse_manifest, receiver_of

    for place in run.store.list(""):
        files = dict(run.store.get(place) or {})
        manifest = parse_manifest(files[MANIFEST], place)
        if manifest.encrypted_to:
            receiver = receiver_of(manifest.kind, manifest.about, "credit")
            assert receiver is not None
            yield receiver, manifest, files


@pytest.mark.parametrize("rows", [0, 1, 17, 500, FEW - 1])
@pytest.mark.parametrize("columns", [1, 7, 40])
def test_below_a_thousand_rows_no_table_has_a_size_of_its_own(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    sizes = set()
    for width in (1, columns, 8 * columns):
        table = rng.integers(0, 256, (rows, width)).astype(np.uint8)
        sizes.add(len(salted(table.tobytes(), bytes(32), rows, columns)))
    assert len(sizes) == 1


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=9000), st.integers(0, 3000), st.integers(0, 3))
def test_what_was_salted_is_what_is_read(content: bytes, rows: int, columns: int) -> None:
    raw = salted(content, b"x" * 32, rows, columns)
    assert len(raw) % STEP == 0
    assert unsalted(raw, "x") == content


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(39),
        bytes(32) + (1).to_bytes(8, "little"),
        b"\xff" * 4096,
        salted(b"abc", bytes(32), 1, 1)[:-1] + b"x",
    ],
)
def test_another_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(Rejected, match="not salted"):
        unsalted(raw, "x")
