"""The content of an artifact: the files of its kind, unchanged, and each in its form."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import DOCUMENT, VECTOR, Artifact
from opboost_ops.exchange.encryption import OVERHEAD, SUFFIX
from opboost_ops.exchange.files import ENTRIES, Files, is_part, part_names
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, Manifest
from opboost_ops.exchange.points import require_points
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.salting import unsalted
from opboost_ops.exchange.sealed.parts import part_count
from opboost_ops.tables.spill.arrays import Scratch

#: Opens a file: its bytes, the artifact's digest, its name.
Decrypt = Callable[[bytes, str, str], bytes]


def listed_sizes(manifest: Manifest) -> dict[str, int]:
    """Names of an artifact's files as they lie in a store, and how large each must be there.

    Args:
        manifest: The artifact's, verified.
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
    """The artifact whose manifest was verified, decrypted.

    A part is held against its digest each time it is read.

    Args:
        manifest: It.
        files: All that lies at its place.
        decrypt: Opens its files; None where they lie as they are.
        what: Name of the place, for the error.
        federation: The plan's; None where it is not known.
        is_repeat: Whether the asking party has accepted this very manifest before: then all parts
            had their form, and are looked at when they are read alone.
        scratch: Where points wait that are more than it holds; in memory when absent.

    Raises:
        Rejected: A file is missing, too many, changed, or of another form than its kind has.
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
    """The files that an artifact of its kind has; how many parts follows from its rows."""
    content = KINDS[manifest.kind].content
    if content == "document":
        return frozenset({DOCUMENT})
    if content == "vector":
        return frozenset({VECTOR})
    # The canary is one more.
    parts = frozenset(part_names(part_count(manifest.rows + 1)))
    return parts if content == "points" else parts | {DOCUMENT}


def _require_document(artifact: Artifact, what: str) -> None:
    document = artifact.document
    if not isinstance(document, dict):
        raise Rejected("malformed", f"{what}: its document is not a mapping.")
