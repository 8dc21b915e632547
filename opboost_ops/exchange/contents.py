"""What is inside an artifact: the files of its kind, unchanged, and each in its form."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import DOCUMENT, VECTOR, Artifact
from opboost_ops.exchange.encryption import OVERHEAD, SUFFIX
from opboost_ops.exchange.files import ENTRIES, TABLE, Files, is_part, part_names
from opboost_ops.exchange.manifest import MANIFEST, PARTED, SIGNATURE, Kind, Manifest
from opboost_ops.exchange.part_sizes import part_rows
from opboost_ops.exchange.points import alignment_files, position_column, require_points
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.salting import unsalted
from opboost_ops.scratch.arrays import Scratch

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


_FILES: Mapping[Kind, frozenset[str]] = {
    "plan": frozenset({DOCUMENT}),
    "ranks": frozenset({TABLE}),
    "holdout": frozenset({TABLE}),
    "split_request": frozenset({DOCUMENT}),
    "split_values": frozenset({DOCUMENT}),
    "values": frozenset({TABLE}),
    "route_request": frozenset({DOCUMENT}),
    "routes": frozenset({TABLE}),
    "round_key": frozenset({DOCUMENT}),
    "round_shares": frozenset({DOCUMENT}),
    "masked": frozenset({VECTOR}),
    "attendance": frozenset({DOCUMENT}),
    "attested": frozenset({DOCUMENT}),
    "opened": frozenset({DOCUMENT}),
    "decision": frozenset({DOCUMENT}),
}


def opened(
    manifest: Manifest,
    files: Mapping[str, bytes],
    decrypt: Decrypt | None,
    what: str,
    purpose: Purpose = "train",
    federation: Federation | None = None,
    known: bool = False,
    scratch: Scratch | None = None,
) -> Artifact:
    """The artifact whose manifest was verified, decrypted.

    A part is held against its digest each time it is read.

    Args:
        manifest: It.
        files: All that lies at its place.
        decrypt: Opens its files; None where they lie as they are.
        what: Name of the place, for the error.
        purpose: What the run is for.
        federation: The plan's; None where it is not known, and the alignment may be of any kind.
        known: Whether whoever asks has accepted this very manifest before: then all parts had their
            form, and are looked at when they are read alone.
        scratch: Where points wait that are more than it holds; in memory when absent.

    Raises:
        Rejected: A file is missing, too many, changed, or of another form than its kind has.
    """
    end = SUFFIX if decrypt else ""
    listed = {MANIFEST, SIGNATURE, *(name + end for name in manifest.files)}
    if set(files) != listed or set(manifest.files) not in _forms(manifest, federation):
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
        # Files of the former format were not salted; they are still read for people.
        return unsalted(raw, f"{what}: {name}") if decrypt and manifest.version > 1 else raw

    if manifest.version == PARTED and not any(map(is_part, manifest.files)):
        raise Rejected("malformed", f"{what}: it has no parts, and says that it has.")
    plain = {name: files[name] for name in (MANIFEST, SIGNATURE)}
    parts = {name: partial(content, name) for name in manifest.files if is_part(name)}
    plain |= {name: content(name) for name in manifest.files if name not in parts}
    artifact = Artifact(manifest, Files(plain, parts) if parts else plain)
    later = known and bool(parts)
    tabled = TABLE in manifest.files or part_names(2, TABLE)[0] in manifest.files
    if tabled and not later:
        _require_table(artifact, what, federation)
    if DOCUMENT in manifest.files:
        _require_document(artifact, what, purpose)
    if tabled or later:
        return artifact
    if federation is not None and (parts or ENTRIES in manifest.files):
        require_points(artifact, federation, what, scratch)
    elif parts:
        for part in parts.values():
            part()
    return artifact


def _forms(manifest: Manifest, federation: Federation | None) -> list[frozenset[str]]:
    """Which files an artifact of a kind may have."""
    if manifest.kind in _FILES:
        return [_parted(manifest, _FILES[manifest.kind])]
    ways = (False, True) if federation is None else (federation.alignment_mode == "private",)
    found = (alignment_files(manifest, private) for private in ways)
    return [_parted(manifest, files) for files in found if files is not None]


def _parted(manifest: Manifest, files: frozenset[str]) -> frozenset[str]:
    """The same with the table in parts, where the manifest is of the version that has such.

    How many there are follows from public counts: there is one form alone.
    """
    if TABLE not in files or manifest.version != PARTED:
        return files
    spans = part_rows(manifest.kind, manifest.rows, len(manifest.columns))
    return files - {TABLE} | set(part_names(len(spans), TABLE))


def _require_table(artifact: Artifact, what: str, federation: Federation | None) -> None:
    about = artifact.manifest
    spans = [about.rows]
    if artifact.parts > 1:
        spans = part_rows(about.kind, about.rows, len(about.columns))
    tables, first = artifact.tables(), None
    for rows in spans:
        try:
            table = next(tables)
        except Rejected:
            raise
        except ArtifactError as error:
            raise Rejected("malformed", error.problem) from None
        _require_columns(table, artifact, rows, what, federation)
        first = first or table.schema
        if table.schema != first:
            raise Rejected("malformed", f"{what}: the parts of its table have other types.")


def _require_columns(
    table: pa.Table, artifact: Artifact, rows: int, what: str, federation: Federation | None
) -> None:
    kind, names = artifact.manifest.kind, artifact.manifest.columns
    if kind == "alignment":
        names = (_position(table, federation),)
    if tuple(table.column_names) != names:
        raise Rejected("unknown_column", f"{what}: its table has other columns than it says.")
    # Routes of a party whose features no tree uses have no column, and so no rows.
    if names and table.num_rows != rows:
        raise Rejected("wrong_row_count", f"{what}: its table has other rows than it says.")
    right = _is_digest if (kind, names) == ("alignment", ("look",)) else pa.types.is_integer
    if any(not right(column.type) or column.null_count for column in table.columns):
        raise Rejected("malformed", f"{what}: a column of its table has the wrong type or gaps.")


def _position(table: pa.Table, federation: Federation | None) -> str:
    if federation is not None:
        return position_column(federation)
    return "look" if table.column_names == ["look"] else "position"


def _is_digest(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16)


def _require_document(artifact: Artifact, what: str, purpose: Purpose) -> None:
    document = artifact.document
    if not isinstance(document, dict):
        raise Rejected("malformed", f"{what}: its document is no mapping.")
    if artifact.manifest.kind == "alignment":
        counts = [document.get(side) for side in ("train", "holdout")]
        # No new row is one to train on.
        least = {"train": (1, 1), "score": (0, 1)}[purpose]
        if any(type(c) is not int or c < n for c, n in zip(counts, least, strict=True)) or (
            purpose == "score" and counts[0] != 0
        ):
            raise Rejected("malformed", f"{what}: it does not say how many rows are held out.")
        if sum(count for count in counts if count) != artifact.manifest.rows:
            raise Rejected("wrong_row_count", f"{what}: its parts do not add up to its rows.")
