"""Checks of an artifact's content: its files, and the form of points and sealed rows.

A point with two encodings, or one of small order, would disclose something about the exponent or
about a person; an unsorted list would disclose the order of a table.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import DOCUMENT, VECTOR, Artifact
from opboost_ops.exchange.encryption import OVERHEAD, SUFFIX, key_name
from opboost_ops.exchange.files import ENTRIES, Files, is_part, part_names, unsalted
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Manifest,
    parse_manifest,
    receiver_of,
    sender_of,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed.curve import POINT, are_points
from opboost_ops.exchange.sealed.ids import TAG, strictly_increasing
from opboost_ops.exchange.sealed.parts import part_count, part_of, record, sorted_records
from opboost_ops.exchange.sealed.sealing import ROW_TAG, row_tags
from opboost_ops.exchange.sealed.zero_shares import slots_for
from opboost_ops.exchange.signing import signed_by
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices

#: Exclusive bound of the number of a table's hash.
_NUMBERS = 256

#: Maximum bytes of a sealed row.
_WIDEST = 1 << 16

_NONCE = re.compile(r"[0-9a-f]{64}")

#: Decrypts a file, given its bytes, the artifact's digest and its name.
Decrypt = Callable[[bytes, str, str], bytes]


@dataclass(frozen=True)
class Layout:
    """Layout of shares or sealed rows.

    Attributes:
        nonce: Nonce of the artifact, 32 bytes.
        width: Bytes of a row without its tag; for shares, of a slot.
        keys: For shares, the number of people in each part.
        numbers: For shares, the number of each part's hash.
    """

    nonce: bytes
    width: int
    keys: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    def document(self) -> dict[str, object]:
        """Return the layout as stored in the artifact's document."""
        content: dict[str, object] = {"nonce": self.nonce.hex(), "width": self.width}
        if self.keys:
            content |= {"keys": list(self.keys), "numbers": list(self.numbers)}
        return content


def layout_of(artifact: Artifact) -> Layout:
    """Return the layout of an artifact's shares or sealed rows.

    Args:
        artifact: The artifact.

    Raises:
        Rejected: Its document does not state a valid layout.
    """
    document, what = artifact.document, artifact.manifest.reference
    fields, counted = {"nonce", "width"}, 0
    if KINDS[artifact.manifest.kind].content == "shares":
        fields, counted = fields | {"keys", "numbers"}, artifact.parts
    if isinstance(document, dict) and set(document) == fields:
        nonce, width = document["nonce"], document["width"]
        keys, numbers = document.get("keys", []), document.get("numbers", [])
        valid = isinstance(nonce, str) and bool(_NONCE.fullmatch(nonce))
        valid = valid and type(width) is int and 0 <= width <= _WIDEST
        for counts in (keys, numbers):
            valid = valid and isinstance(counts, list)
            valid = valid and all(type(n) is int and n >= 0 for n in counts)
            valid = valid and len(counts) == counted
        if valid and max(numbers, default=0) < _NUMBERS:
            return Layout(bytes.fromhex(nonce), width, tuple(keys), tuple(numbers))
    raise Rejected("malformed", f"{what}: its document does not state how it was built.")


def require_points(
    artifact: Artifact, federation: Federation, what: str, scratch: Scratch | None = None
) -> None:
    """Reject entries whose length, form or order does not match their kind.

    Args:
        artifact: The decrypted artifact.
        federation: The federation of the plan.
        what: Name of the place, for the error.
        scratch: Spills an answer's points to disk if they exceed its memory limit; by default
            they stay in memory.

    Raises:
        Rejected: An entry is invalid.
    """
    kind = KINDS[artifact.manifest.kind]
    if kind.content == "shares":
        _require_shares(artifact, federation, what)
    elif kind.content == "sealed_rows":
        _require_sealed(artifact, what)
    elif kind.signer == "label_holder":
        for number, points in _canonical(artifact, what):
            _require_rising(points, number, artifact, what)
            del points
    else:
        _require_once(artifact, what, scratch)


def _canonical(artifact: Artifact, what: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the parts of a list of points, after checking their form and number."""
    count = 0
    for number in range(artifact.parts):
        points = artifact.part(number, POINT)
        count += len(points)
        if count > artifact.manifest.rows + 1:
            break
        if not all(are_points(points[block]) for block in slices(len(points))):
            raise Rejected("malformed", f"{what}: an entry is not a point in its canonical form.")
        yield number, points
        del points  # Free it before reading the next part.
    if count != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its points are not as many as it states.")


def _require_once(artifact: Artifact, what: str, scratch: Scratch | None) -> None:
    """Reject an answer, which has the order of its query, if a point occurs twice."""
    count = artifact.manifest.rows + 1
    kind = record(1)

    def heads() -> Iterator[np.ndarray]:
        for _, points in _canonical(artifact, what):
            for block in slices(len(points)):
                records = np.zeros(block.stop - block.start, dtype=kind)
                records["key"] = points[block, :TAG]
                yield records
            del points

    for batch in sorted_records(scratch or Scratch(Path(), count), heads(), count):
        if not strictly_increasing(batch["key"]):
            raise Rejected("malformed", f"{what}: a point occurs twice.")
        release_memory()


def _require_shares(artifact: Artifact, federation: Federation, what: str) -> None:
    layout = layout_of(artifact)
    if layout.width != TAG * (len(federation.feature_holders) - 1):
        raise Rejected("malformed", f"{what}: its slots have the wrong width.")
    if sum(layout.keys) != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its parts do not add up to its rows.")
    for number, people in enumerate(layout.keys):
        if len(artifact.part(number, layout.width)) != slots_for(people):
            raise Rejected("wrong_row_count", f"{what}: its entries have another length.")


def _require_sealed(artifact: Artifact, what: str) -> None:
    """Reject rows whose tags are unsorted or repeated: a person could then open two rows."""
    layout, count = layout_of(artifact), 0
    for number in range(artifact.parts):
        entries = artifact.part(number, ROW_TAG + layout.width)
        count += len(entries)
        _require_rising(row_tags(entries), number, artifact, what)
        del entries
    if count != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its rows are not as many as it states.")


def _require_rising(entries: np.ndarray, number: int, artifact: Artifact, what: str) -> None:
    """Reject a part that is unsorted or contains entries of another part."""
    inside = (part_of(entries, artifact.parts) == number).all()
    if not inside or not strictly_increasing(entries):
        raise Rejected("malformed", f"{what}: its entries are not in rising order, or come twice.")


def listed_sizes(manifest: Manifest) -> dict[str, int]:
    """Return the names of an artifact's files in a store, and their required sizes.

    Args:
        manifest: The verified manifest.
    """
    if manifest.encrypted_to is None:
        return {name: file.size for name, file in manifest.files.items()}
    return {name + SUFFIX: file.size + OVERHEAD for name, file in manifest.files.items()}


def opened(
    manifest: Manifest,
    files: Mapping[str, bytes],
    decrypt: Decrypt | None,
    what: str,
    federation: Federation | None = None,
    is_repeat: bool = False,
    scratch: Scratch | None = None,
) -> Artifact:
    """Decrypt an artifact whose manifest was verified.

    Parts are verified against their digests each time they are read.

    Args:
        manifest: The manifest.
        files: All files at its place.
        decrypt: Decrypts a file; None if the files are not encrypted.
        what: Name of the place, for the error.
        federation: The federation of the plan; None if unknown.
        is_repeat: Whether the reader has accepted the same manifest before; then the parts' form
            was checked, and they are verified only when read.
        scratch: Spills points to disk if they exceed its memory limit; by default they stay in
            memory.

    Raises:
        Rejected: A file is missing, extra, changed, or has the wrong form for its kind.
    """
    end = SUFFIX if decrypt else ""
    listed = {MANIFEST, SIGNATURE, *(name + end for name in manifest.files)}
    if set(files) != listed or set(manifest.files) != _files_of(manifest):
        raise Rejected("malformed", f"{what}: its files are not those it lists.")

    def content(name: str) -> bytes:
        file, raw = manifest.files[name], files[name + end]
        if decrypt:
            try:
                raw = decrypt(raw, manifest.digest, name)
            except Rejected as error:
                raise Rejected(error.reason, f"{what}: {error.problem}") from None
        if len(raw) != file.size or hashlib.sha256(raw).hexdigest() != file.sha256:
            raise Rejected("bad_digest", f"{what}: {name} was changed.")
        return unsalted(raw, f"{what}: {name}") if decrypt else raw

    plain = {name: files[name] for name in (MANIFEST, SIGNATURE)}
    parts = {name: partial(content, name) for name in manifest.files if is_part(name)}
    plain |= {name: content(name) for name in manifest.files if name not in parts}
    artifact = Artifact(manifest, Files(plain, parts) if parts else plain)
    if DOCUMENT in manifest.files:
        _require_document(artifact, what)
    if is_repeat and parts:
        return artifact
    if federation is not None and (parts or ENTRIES in manifest.files):
        require_points(artifact, federation, what, scratch)
    elif parts:
        for part in parts.values():
            part()
    return artifact


def _files_of(manifest: Manifest) -> frozenset[str]:
    """Return the file names of an artifact; the number of parts depends on its rows."""
    content = KINDS[manifest.kind].content
    if content == "document":
        return frozenset({DOCUMENT})
    if content == "vector":
        return frozenset({VECTOR})
    # The canary is an additional entry.
    parts = frozenset(part_names(part_count(manifest.rows + 1)))
    return parts if content == "points" else parts | {DOCUMENT}


def _require_document(artifact: Artifact, what: str) -> None:
    document = artifact.document
    if not isinstance(document, dict):
        raise Rejected("malformed", f"{what}: its document is not a mapping.")


def declared_keys(federation: Federation, manifest: Manifest, what: str) -> tuple[str, ...]:
    """Return the declared signing keys of the party that may publish an artifact.

    The keys include replaced ones, newest first and regardless of their dates, but no revoked ones.

    Args:
        federation: The artifact's federation.
        manifest: Its manifest.
        what: Name of its place, for the error.

    Raises:
        Rejected: Its federation, parties or encryption differ from the declared ones.
    """
    if manifest.federation != federation.name:
        raise Rejected("wrong_federation", f"{what}: it is of another federation.")
    if not {manifest.party, manifest.about} <= set(federation.parties):
        raise Rejected("unknown_party", f"{what}: the federation file knows no such party.")
    holder = federation.label_holder
    if manifest.party != sender_of(manifest.kind, manifest.about, holder):
        raise Rejected(
            "wrong_party", f"{what}: {manifest.party} may not publish this {manifest.kind}."
        )
    receiver = receiver_of(manifest.kind, manifest.about, holder)
    keys = federation.parties[receiver].opening(date.min) if receiver else (None,)
    if manifest.encrypted_to not in [key and key_name(key) for key in keys]:
        raise Rejected(
            "not_for_me", f"{what}: it is not encrypted to the declared key of its receiver."
        )
    return federation.parties[manifest.party].all_signing_keys


def read_manifest(files: Mapping[str, bytes], what: str) -> Manifest:
    """Return an artifact's manifest without verifying its signature.

    Args:
        files: All files of the artifact.
        what: Name of its place, for the error.

    Raises:
        Rejected: Manifest or signature is missing or damaged.
    """
    for name, role in ((MANIFEST, "manifest"), (SIGNATURE, "signature")):
        if name not in files:
            raise Rejected("malformed", f"{what}: the {role} {name} is missing.")
    return parse_manifest(files[MANIFEST], what)


def verify(manifest: Manifest, files: Mapping[str, bytes], keys: Sequence[str], what: str) -> str:
    """Verify signature, form and file digests; of encrypted files only names and sizes.

    Args:
        manifest: The manifest from `read_manifest`.
        files: All files of the artifact.
        keys: The signer's public keys, base64; one of them must have signed.
        what: Name of its place, for the error.

    Returns:
        The key that signed.

    Raises:
        Rejected: A check failed.
    """
    signer = next((k for k in keys if signed_by(k, files[MANIFEST], files[SIGNATURE])), None)
    if signer is None:
        raise Rejected(
            "bad_signature", f"{what}: the signature is not by this key of {manifest.party}."
        )
    if manifest.encrypted_to is None:
        opened(manifest, files, None, what)
        return signer
    if set(files) != {MANIFEST, SIGNATURE, *(name + SUFFIX for name in manifest.files)}:
        raise Rejected("malformed", f"{what}: its files are not those it lists.")
    for name, file in manifest.files.items():
        if len(files[name + SUFFIX]) != file.size + OVERHEAD:
            raise Rejected("bad_digest", f"{what}: {name}{SUFFIX} does not have the right size.")
    return signer
