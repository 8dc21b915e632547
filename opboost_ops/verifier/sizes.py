"""Sizes that an artifact's files must have, from public facts alone.

An encrypted file is salted and padded first: 32 bytes of salt, 8 bytes of length, the content, and
zeros up to a multiple of 4,096; below 1,000 rows at least up to 40 + (2048 + 32 rows) bytes per
column, so that a document's size tells nothing.
"""

from dataclasses import dataclass

from opboost_ops.verifier.plans import Plan
from opboost_ops.verifier.stores import Artifact

#: Bytes that encryption adds: an X25519 key, a nonce, and an authentication tag.
OVERHEAD = 32 + 12 + 16

_STEP, _HEAD, _FEW = 4096, 40, 1000
_PART = 1 << 20
_POINT, _TAG, _SHARE = 32, 10, 16


@dataclass(frozen=True)
class Expected:
    """The size that a file must have.

    Attributes:
        exact: Bytes; None where only a multiple of a step is known.
        step: The step.
        unknown: What is missing to know more; empty otherwise.
    """

    exact: int | None = None
    step: int = 1
    unknown: str = ""

    def admits(self, size: object) -> bool:
        """Whether a file may have a size."""
        if self.exact is not None:
            return size == self.exact
        return isinstance(size, int) and size > 0 and size % self.step == 0


def expected(plan: Plan, artifact: Artifact, name: str) -> Expected:
    """The size of a file before encryption, as its manifest states it."""
    manifest = artifact.manifest
    rows, columns = manifest["rows"], len(manifest["columns"])
    encrypted = manifest["encrypted_to"] is not None
    if name == "document.json":
        if not encrypted:
            return Expected(unknown="sizes of documents that lie open")
        if rows >= _FEW:
            return Expected(step=_STEP)
        # A document of few rows is smaller than the least size.
        return Expected(exact=padded(0, rows, columns))
    parts = sum(file.startswith("entries") for file in manifest["files"])
    if parts > 1:
        return Expected(unknown="sizes of single parts, which follow from hashes")
    content = _content(plan, artifact)
    if content is None:
        return Expected(unknown=f"the width of rows of {artifact.kind}")
    return Expected(exact=padded(content, rows, columns) if encrypted else content)


def row_width(plan: Plan, party: str) -> int:
    """Bytes of a feature holder's row: each column in as many bits as its declared size needs."""
    bits = sum(column.size.bit_length() for column in plan.columns(party))
    return max(-(-bits // 8), 1)


def part_count(entries: int) -> int:
    """The number of files that a list of entries is cut into, a power of two."""
    return 1 << min((max(entries - 1, 0) // _PART).bit_length(), 12)


def _content(plan: Plan, artifact: Artifact) -> int | None:
    rows, kind = int(artifact.manifest["rows"]), artifact.kind
    # The canary is one more.
    if kind in ("psi_query", "psi_answer"):
        return _POINT * (rows + 1)
    if kind == "shares":
        slots = 3 * (-(-1300 * (rows + 1) // 3000) + 24)
        return _SHARE * (len(plan.feature_holders) - 1) * slots
    if kind in ("ranks", "values"):
        return (_TAG + row_width(plan, artifact.about)) * (rows + 1)
    return None


def padded(content: int, rows: int, columns: int) -> int:
    """Bytes of a file once it is salted and padded."""
    size = _HEAD + content
    if rows < _FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + 2048 * width + 32 * rows * width)
    return size + -size % _STEP
