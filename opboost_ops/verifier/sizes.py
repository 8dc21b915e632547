"""Sizes that an artifact's files must have, from public facts alone.

An encrypted file is salted and padded first: 32 bytes of salt, 8 bytes of length, the content, and
zeros up to a multiple of 4,096; below 1,000 rows at least up to 40 + (2048 + 32 rows) bytes per
column, so that a document's size tells nothing.
"""

from opboost_ops.verifier.plans import Plan
from opboost_ops.verifier.stores import Artifact

#: Bytes that encryption adds: an X25519 key, a nonce, and an authentication tag.
OVERHEAD = 32 + 12 + 16

_STEP, _HEAD, _FEW = 4096, 40, 1000
_PART = 1 << 20
_POINT, _TAG, _SHARE = 32, 10, 16


class NotKnownError(Exception):
    """A size does not follow from public facts."""


def is_expected(plan: Plan, artifact: Artifact, name: str) -> bool:
    """True if a file has the size before encryption that its manifest has to state.

    Raises:
        NotKnownError: It follows from something else.
    """
    manifest = artifact.manifest
    rows, columns, size = (
        manifest["rows"],
        len(manifest["columns"]),
        manifest["files"][name]["size"],
    )
    encrypted = manifest["encrypted_to"] is not None
    if name == "document.json":
        if not encrypted:
            raise NotKnownError("sizes of documents that lie open")
        if rows >= _FEW:
            return bool(size > 0 and size % _STEP == 0)
        # A document of few rows is smaller than the least size.
        return bool(size == padded(0, rows, columns))
    if sum(file.startswith("entries") for file in manifest["files"]) > 1:
        raise NotKnownError("sizes of single parts, which follow from hashes")
    content = _content(plan, artifact)
    return bool(size == (padded(content, rows, columns) if encrypted else content))


def row_width(plan: Plan, party: str) -> int:
    """Bytes of a feature holder's row: each column in as many bits as its declared size needs."""
    bits = sum(column.size.bit_length() for column in plan.columns(party))
    return max(-(-bits // 8), 1)


def part_count(entries: int) -> int:
    """The number of files that a list of entries is cut into, a power of two."""
    return 1 << min((max(entries - 1, 0) // _PART).bit_length(), 12)


def _content(plan: Plan, artifact: Artifact) -> int:
    rows, kind = int(artifact.manifest["rows"]), artifact.kind
    # The canary is one more.
    if kind in ("psi_query", "psi_answer"):
        return _POINT * (rows + 1)
    if kind == "shares":
        slots = 3 * (-(-1300 * (rows + 1) // 3000) + 24)
        return _SHARE * (len(plan.feature_holders) - 1) * slots
    if kind in ("ranks", "values"):
        return (_TAG + row_width(plan, artifact.about)) * (rows + 1)
    raise NotKnownError(f"the width of rows of {kind}")


def padded(content: int, rows: int, columns: int) -> int:
    """Bytes of a file once it is salted and padded."""
    size = _HEAD + content
    if rows < _FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + 2048 * width + 32 * rows * width)
    return size + -size % _STEP
