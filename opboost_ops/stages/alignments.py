"""The ways to find the common people, by the federation file's name."""

from collections.abc import Mapping

from opboost_ops.config.federation import AlignmentMode
from opboost_ops.stages.alignment import Alignment
from opboost_ops.stages.keyed import Keyed
from opboost_ops.stages.private import Private

_WAYS: Mapping[AlignmentMode, Alignment] = {"keyed": Keyed(), "private": Private()}


def alignment_of(mode: AlignmentMode) -> Alignment:
    """The way of a federation.

    Args:
        mode: As its file names it.
    """
    return _WAYS[mode]
