"""Which releases work together: those that are at most one minor version apart.

Parties upgrade one after the other, so two neighbouring releases must be able to hold a run. What a
release leaves behind for longer than that nobody tests.
"""

import re

#: The first two numbers of a release.
_RELEASE = re.compile(r"^(\d{1,6})\.(\d{1,6})(?!\d)")


def too_far_apart(mine: str, theirs: str) -> int:
    """Compare two releases that speak one protocol.

    Args:
        mine: This software's version.
        theirs: The other's, as its manifest says.

    Returns:
        0 if they work together, or nothing can be said of them; -1 if this software is too old for
        the other one, 1 if the other one is too old for this.
    """
    here, there = _minor(mine), _minor(theirs)
    if here is None or there is None:
        return 0
    if here[0] == there[0] and abs(here[1] - there[1]) <= 1:
        return 0
    return -1 if here < there else 1


def _minor(version: str) -> tuple[int, int] | None:
    numbers = _RELEASE.match(version)
    return (int(numbers[1]), int(numbers[2])) if numbers else None
