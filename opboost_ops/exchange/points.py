"""The content of the artifacts of the sealed release: points, shares and sealed rows.

A point with two names, or one of few that a multiplication can reach, would tell something of the
exponent or of a person; a list that is not sorted tells the order of a table.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.kinds import KINDS
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed.curve import POINT, are_points
from opboost_ops.exchange.sealed.parts import part_of, record, rising_records
from opboost_ops.exchange.sealed.sealing import ROW_TAG, row_tags
from opboost_ops.exchange.sealed.tags import TAG, strictly_rising
from opboost_ops.exchange.sealed.zero_shares import slots_for
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices

#: The hash of a table has a number below this one.
_NUMBERS = 256

#: Bytes of a sealed row at most.
_WIDEST = 1 << 16

_NONCE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Layout:
    """How shares or sealed rows are laid out.

    Attributes:
        nonce: Of the artifact, 32 bytes.
        width: Bytes of a row without its tag; of shares, of a slot.
        keys: Of shares, how many people each part has.
        numbers: Of shares, the number of each part's hash.
    """

    nonce: bytes
    width: int
    keys: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()

    def document(self) -> dict[str, object]:
        """As the artifact's document has it."""
        content: dict[str, object] = {"nonce": self.nonce.hex(), "width": self.width}
        if self.keys:
            content |= {"keys": list(self.keys), "numbers": list(self.numbers)}
        return content


def layout_of(artifact: Artifact) -> Layout:
    """How an artifact's shares or sealed rows are laid out.

    Args:
        artifact: It.

    Raises:
        Rejected: It does not say.
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
    raise Rejected("malformed", f"{what}: it does not say how it was built.")


def require_points(
    artifact: Artifact, federation: Federation, what: str, scratch: Scratch | None = None
) -> None:
    """Refuse entries of another length, form or order than their kind has.

    Args:
        artifact: What was opened.
        federation: The plan's.
        what: Name of the place, for the error.
        scratch: Where an answer's points wait, if they are more than it holds; in memory when
            absent.

    Raises:
        Rejected: Saying what is wrong with it.
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
    """The parts of a list of points, each of which is one, and as many as it says."""
    count = 0
    for number in range(artifact.parts):
        points = artifact.part(number, POINT)
        count += len(points)
        if count > artifact.manifest.rows + 1:
            break
        if not all(are_points(points[some]) for some in slices(len(points))):
            raise Rejected("malformed", f"{what}: an entry is not a point in its canonical form.")
        yield number, points
        del points  # Before the next part is read.
    if count != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its points are not as many as it states.")


def _require_once(artifact: Artifact, what: str, scratch: Scratch | None) -> None:
    """Refuse an answer, which is in the order of its query, with a point twice."""
    count = artifact.manifest.rows + 1
    kind = record(1)

    def heads() -> Iterator[np.ndarray]:
        for _, points in _canonical(artifact, what):
            for some in slices(len(points)):
                records = np.zeros(some.stop - some.start, dtype=kind)
                records["key"] = points[some, :TAG]
                yield records
            del points

    for batch in rising_records(scratch or Scratch(Path(), count), heads(), count):
        if not strictly_rising(batch["key"]):
            raise Rejected("malformed", f"{what}: a point of it comes twice.")
        release_memory()


def _require_shares(artifact: Artifact, federation: Federation, what: str) -> None:
    layout = layout_of(artifact)
    if layout.width != TAG * (len(federation.feature_holders) - 1):
        raise Rejected("malformed", f"{what}: its slots are of another width.")
    if sum(layout.keys) != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its parts do not add up to its rows.")
    for number, people in enumerate(layout.keys):
        if len(artifact.part(number, layout.width)) != slots_for(people):
            raise Rejected("wrong_row_count", f"{what}: its entries have another length.")


def _require_sealed(artifact: Artifact, what: str) -> None:
    """Refuse rows whose tags are out of order or come twice: then one would open twice."""
    layout, count = layout_of(artifact), 0
    for number in range(artifact.parts):
        entries = artifact.part(number, ROW_TAG + layout.width)
        count += len(entries)
        _require_rising(row_tags(entries), number, artifact, what)
        del entries
    if count != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its rows are not as many as it says.")


def _require_rising(entries: np.ndarray, number: int, artifact: Artifact, what: str) -> None:
    """Refuse a part that is out of order, or holds what is another part's."""
    inside = (part_of(entries, artifact.parts) == number).all()
    if not inside or not strictly_rising(entries):
        raise Rejected("malformed", f"{what}: its entries are not in rising order, or come twice.")
