"""Which people are kept: the ``alignment`` entry of a federation file."""

from typing import Literal

from opboost_ops.config.schema import Record


class Alignment(Record):
    """Which rows of the label holder are trained on and scored.

    Attributes:
        overlap: ``common``: those of people that all feature holders have. ``left``: all (a left
        join), with missing values where a feature holder lacks the person.
    """

    overlap: Literal["common", "left"] = "common"
