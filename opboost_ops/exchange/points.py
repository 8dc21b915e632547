"""What is inside the artifacts of private alignment: points and tags, each in its only form.

A point with two names, or one of few that a multiplication can reach, would tell something of the
exponent or of a person; a list that is not sorted tells the order of a table.
"""

from collections.abc import Mapping

import numpy as np

from opboost_ops.alignment.curve import POINT, are_points
from opboost_ops.alignment.matching import layout_size
from opboost_ops.alignment.tags import TAG, sorting, strictly_rising
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import DOCUMENT, ENTRIES, TABLE, Artifact
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.rejection import Rejected

#: The files of the kinds that alignment has, by whether it is private.
ALIGNMENT_FILES: Mapping[bool, Mapping[Kind, frozenset[str]]] = {
    False: {"digests": frozenset({TABLE})},
    True: {
        "digests": frozenset({ENTRIES, DOCUMENT}),
        "psi_query": frozenset({ENTRIES}),
        "psi_answer": frozenset({ENTRIES}),
    },
}

#: Numbers that the hash of a table may have.
_NUMBERS = range(256)


def position_column(federation: Federation) -> str:
    """Name of the column of an alignment: places in the published list, or look-up tags.

    Args:
        federation: The plan's.
    """
    several = len(federation.feature_holders) > 1
    return "look" if federation.alignment == "private" and several else "position"


def query_points(artifact: Artifact) -> np.ndarray:
    """The points of a query or of its answer, uint8, shape (rows + 1, 32); one is the canary's.

    Args:
        artifact: The accepted artifact.
    """
    return artifact.entries(artifact.manifest.rows + 1, POINT)


def layout_entries(artifact: Artifact, federation: Federation) -> np.ndarray:
    """The entries of what a feature holder lays out, uint8, shape (k, 16).

    Args:
        artifact: The accepted artifact.
        federation: The plan's.
    """
    holders = len(federation.feature_holders)
    return artifact.entries(layout_size(holders, artifact.manifest.rows), TAG)


def require_points(artifact: Artifact, federation: Federation, what: str) -> None:
    """Refuse entries of another length, form or order than their kind has.

    Args:
        artifact: What was opened.
        federation: The plan's.
        what: Name of the place, for the error.

    Raises:
        Rejected: Saying what is wrong with it.
    """
    if artifact.manifest.kind == "digests":
        entries = layout_entries(artifact, federation)
        number = artifact.document.get("number")
        if type(number) is not int or number not in _NUMBERS:
            raise Rejected("malformed", f"{what}: it does not say how it was built.")
        if len(federation.feature_holders) == 1 and not strictly_rising(entries):
            raise Rejected("malformed", f"{what}: its digests are not in rising order.")
        return
    points = query_points(artifact)
    if not are_points(points):
        raise Rejected("malformed", f"{what}: an entry is no point in its canonical form.")
    # An answer is in the order of its query.
    rising = points if artifact.manifest.kind == "psi_query" else points[sorting(points)]
    if not strictly_rising(rising):
        raise Rejected("malformed", f"{what}: its points are not in rising order, or come twice.")
