"""From a draft to the bytes in the store, and what a manifest says and does not say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.domain import Domain
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.encryption import Envelope, key_name, new_encryption_key
from opboost_ops.exchange.files import smallest_integers
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Manifest,
    parse_manifest,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import signed_by
from opboost_ops.mechanisms.maps import GlobalMap
from opboost_ops.privacy.loss import loss_curve
from tests.federation_simulator import Member

RUN = "0123456789abcdef"
PLACE = f"toy/{RUN}/ranks/bank"
ROWS = 500
BANK = Member("bank").signer
PUBLIC = new_encryption_key(b"l" * 32)[1]


def draft() -> Draft:
    ranks = np.arange(ROWS) % 10 + 1
    return Draft(
        kind="ranks",
        about="bank",
        entries=np.column_stack([ranks, 11 - ranks]).astype(np.uint8),
        document={"note": "x"},
        rows=ROWS,
        columns=("income", "debt"),
        answers="a" * 64,
        losses={"income": loss_curve(GlobalMap(epsilon=1.0), Domain(1, 10))},
        discloses="",
    )


def sealed(encrypted: bool, made: Draft | None = None) -> tuple[Manifest, dict[str, bytes]]:
    envelope = Envelope(b"s" * 32, PUBLIC) if encrypted else None
    return (made or draft()).seal(BANK, "toy", RUN, "bank", False, envelope)


def test_what_was_sealed_is_what_is_read() -> None:
    manifest, files = sealed(encrypted=False)
    assert sorted(files) == ["document.json", "entries.bin", "manifest.json", "manifest.sig"]
    artifact = Artifact(parse_manifest(files[MANIFEST], PLACE), files)
    assert artifact.manifest == manifest
    assert manifest.reference == PLACE
    assert artifact.part(0, 2)[:, 0].tolist() == [i % 10 + 1 for i in range(ROWS)]
    assert artifact.document == {"note": "x"}
    assert manifest.losses == draft().losses
    assert artifact.size == sum(len(raw) for raw in files.values())
    assert signed_by(BANK.public, files[MANIFEST], files[SIGNATURE])


def test_encrypted_files_and_a_plain_manifest() -> None:
    plain, _ = sealed(encrypted=False)
    manifest, files = sealed(encrypted=True)
    assert sorted(files) == [
        "document.json.enc", "entries.bin.enc", "manifest.json", "manifest.sig",
    ]  # fmt: skip
    # Digests and sizes are of the salted and padded contents: nobody can test a guess by them.
    assert {name: file.size for name, file in manifest.files.items()} == {
        "entries.bin": 36_864, "document.json": 36_864,
    }  # fmt: skip
    known = {file.sha256 for file in plain.files.values()}
    assert not known & {file.sha256 for file in manifest.files.values()}
    assert manifest.encrypted_to == key_name(PUBLIC)
    assert plain.encrypted_to is None
    assert signed_by(BANK.public, files[MANIFEST], files[SIGNATURE])


@pytest.mark.parametrize("encrypted", [True, False])
def test_another_content_has_another_digest_and_other_bytes(encrypted: bool) -> None:
    first, files = sealed(encrypted)
    other, others = sealed(encrypted, replace(draft(), document={"note": "y"}))
    assert first.digest != other.digest
    assert all(files[name] != others[name] for name in files if encrypted or "entries" not in name)


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_another_format_version_says_so(version: int) -> None:
    data = {**json.loads(sealed(False)[1][MANIFEST]), "version": version}
    with pytest.raises(Rejected, match=f"format version {version}") as caught:
        parse_manifest(json.dumps(data).encode(), "x")
    assert caught.value.reason == "unsupported_version"


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"version": true}'])
def test_what_is_no_manifest_is_malformed(raw: bytes) -> None:
    with pytest.raises(Rejected, match="damaged") as caught:
        parse_manifest(raw, "x")
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize(
    "change",
    [{"more": 1}, {"rows": -1}, {"run": "../../escape"}, {"kind": "scores"}, {"encrypted_to": ""}],
)
def test_a_manifest_that_breaks_its_schema_is_malformed(change: dict[str, object]) -> None:
    data = {**json.loads(sealed(False)[1][MANIFEST]), **change}
    with pytest.raises(Rejected, match="damaged"):
        parse_manifest(json.dumps(data, sort_keys=True, separators=(",", ":")).encode(), "x")


def test_a_manifest_in_another_form_is_malformed() -> None:
    raw = json.dumps(json.loads(sealed(False)[1][MANIFEST]), indent=1).encode()
    with pytest.raises(Rejected, match="canonical"):
        parse_manifest(raw, "x")


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[" * 100_000])
def test_a_document_that_is_no_json(raw: bytes) -> None:
    artifact = Artifact(sealed(False)[0], {"document.json": raw})
    with pytest.raises(Rejected, match="document is damaged"):
        _ = artifact.document
    with pytest.raises(ArtifactError, match=r"entries\.bin is missing"):
        artifact.part(0, 1)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=50))
@settings(deadline=None)
def test_smallest_integers_keep_their_values(values: list[int]) -> None:
    array = smallest_integers(np.array(values))
    assert array.to_pylist() == values
    smallest = next(bits for bits in (8, 16, 32, 64) if max(values) < 2**bits)
    assert array.type.bit_width == smallest
