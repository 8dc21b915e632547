"""What is inside the artifacts of private alignment: points and tags, each in its only form.

A point with two names, or one of few that a multiplication can reach, would tell something of the
exponent or of a person; a list that is not sorted tells the order of a table.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from opboost_ops.alignment.curve import POINT, are_points
from opboost_ops.alignment.matching import layout_size
from opboost_ops.alignment.parts import part_count, part_of, record, rising_records
from opboost_ops.alignment.short_digests import SHORT, rising
from opboost_ops.alignment.tags import TAG, strictly_rising
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import DOCUMENT, Artifact
from opboost_ops.exchange.files import ENTRIES, TABLE, part_names
from opboost_ops.exchange.manifest import PARTED, Kind, Manifest
from opboost_ops.exchange.part_sizes import digest_parts
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.scratch.arrays import Scratch, let_go, slices

#: The kinds of private alignment whose points or tags may have several parts.
_PARTED: frozenset[Kind] = frozenset({"digests", "psi_query", "psi_answer"})

#: The hash of a table has a number below this one.
_NUMBERS = 256


def position_column(federation: Federation) -> str:
    """Name of the column of a private alignment: places in the published list, or look-up tags.

    Args:
        federation: The plan's.
    """
    return "look" if len(federation.feature_holders) > 1 else "position"


def digest_entries(artifact: Artifact) -> Iterator[np.ndarray]:
    """Keyed digests as they travel, uint8, shape (k, 10), one part after the other.

    Args:
        artifact: The accepted artifact.
    """
    if artifact.parts == 1:
        yield artifact.entries(artifact.manifest.rows, SHORT)
        return
    for number, rows in enumerate(digest_parts(artifact.manifest.rows)):
        part = artifact.part(number, SHORT)
        if len(part) != rows:
            where = artifact.manifest.reference
            raise Rejected("wrong_row_count", f"{where}: its entries have another length.")
        yield part


def alignment_files(manifest: Manifest, private: bool) -> frozenset[str] | None:
    """The files of a kind that alignment has, or None if it has no such kind.

    How many parts a list has follows from its rows: there is one form alone.

    Args:
        manifest: The artifact's.
        private: Which way of alignment.
    """
    kind = manifest.kind
    if kind == "alignment":
        return frozenset({TABLE if private else ENTRIES, DOCUMENT})
    if not private:
        if kind != "digests":
            return None
        parted = manifest.version == PARTED
        return frozenset(part_names(len(digest_parts(manifest.rows)) if parted else 1))
    if kind not in _PARTED:
        return None
    # The canary is one more.
    parts = frozenset(part_names(part_count(manifest.rows + 1)))
    return parts | {DOCUMENT} if kind == "digests" else parts


def layout_parts(artifact: Artifact) -> list[tuple[int, int]]:
    """Of each part of what a feature holder lays out: how many people, and the number of its hash.

    Args:
        artifact: The accepted artifact.
    """
    document = artifact.document
    return list(zip(document["keys"], document["numbers"], strict=True))


def require_points(
    artifact: Artifact, federation: Federation, what: str, scratch: Scratch | None = None
) -> None:
    """Refuse entries of another length, form or order than their kind has.

    How many bits an alignment has, only its reader knows, who has the list.

    Args:
        artifact: What was opened.
        federation: The plan's.
        what: Name of the place, for the error.
        scratch: Where an answer's points wait, if they are more than it holds; in memory when
            absent.

    Raises:
        Rejected: Saying what is wrong with it.
    """
    if artifact.manifest.kind == "alignment":
        return
    if federation.alignment_mode == "keyed":
        last = np.empty((0, SHORT), dtype=np.uint8)
        for part in digest_entries(artifact):
            if not rising(np.concatenate([last, part])):
                raise Rejected(
                    "malformed", f"{what}: its digests are not in rising order, or one comes twice."
                )
            last = part[-1:]
        return
    if artifact.manifest.kind == "digests":
        _require_layout(artifact, federation, what)
        return
    if artifact.manifest.kind == "psi_query":
        for number, points in _canonical(artifact, what):
            _require_rising(points, number, artifact, what)
            del points
        return
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
            raise Rejected("malformed", f"{what}: an entry is no point in its canonical form.")
        yield number, points
        del points  # Before the next part is read.
    if count != artifact.manifest.rows + 1:
        raise Rejected("wrong_row_count", f"{what}: its points are not as many as it says.")


def _require_once(artifact: Artifact, what: str, scratch: Scratch | None) -> None:
    """Refuse an answer, which is in the order of its query, with a point twice."""
    count = artifact.manifest.rows + 1
    kind = record(1)

    def heads() -> Iterator[np.ndarray]:
        for _, points in _canonical(artifact, what):
            for some in slices(len(points)):
                made = np.zeros(some.stop - some.start, dtype=kind)
                made["key"] = points[some, :TAG]
                yield made
            del points

    for found in rising_records(scratch or Scratch(Path(), count), heads(), count):
        if not strictly_rising(found["key"]):
            raise Rejected("malformed", f"{what}: a point of it comes twice.")
        let_go()


def _require_layout(artifact: Artifact, federation: Federation, what: str) -> None:
    document, several = artifact.document, len(federation.feature_holders) > 1
    keys, numbers = document.get("keys"), document.get("numbers")
    for said in (keys, numbers):
        if not isinstance(said, list) or any(type(n) is not int or n < 0 for n in said):
            raise Rejected("malformed", f"{what}: it does not say how it was built.")
        if len(said) != artifact.parts:
            raise Rejected("malformed", f"{what}: it does not say how it was built.")
    if max(numbers) >= _NUMBERS or sum(keys) != artifact.manifest.rows + 1:
        raise Rejected("malformed", f"{what}: it does not say how it was built.")
    for number, (people, _) in enumerate(layout_parts(artifact)):
        entries = artifact.part(number, TAG)
        if len(entries) != layout_size(several, people):
            raise Rejected("wrong_row_count", f"{what}: its entries have another length.")
        if not several:
            _require_rising(entries, number, artifact, what)


def _require_rising(entries: np.ndarray, number: int, artifact: Artifact, what: str) -> None:
    """Refuse a part that is out of order, or holds what is another part's."""
    inside = (part_of(entries, artifact.parts) == number).all()
    if not inside or not strictly_rising(entries):
        raise Rejected("malformed", f"{what}: its points are not in rising order, or come twice.")
