"""A pilot: a run over all columns that may be released, by which a later release is chosen."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from opboost_ops.config.schema import Record
from opboost_ops.errors import Fault

if TYPE_CHECKING:
    from opboost_ops.config.federation import Federation


class Pilot(Record):
    """That a feature holder's releases of this federation are a pilot, and what may follow it.

    Attributes:
        total_loss_1: What the release that is chosen by it may cost a person at most: the sum of
            loss(1) over its columns.
        total_loss_whole: The same of loss(R - L).
    """

    total_loss_1: float | None = Field(default=None, gt=0)
    total_loss_whole: float | None = Field(default=None, gt=0)


def pilot_faults(federation: "Federation") -> Iterator[Fault]:
    """What is wrong with a federation's pilots.

    Args:
        federation: As parsed.
    """
    for name, party in federation.parties.items():
        where = f"parties.{name}.pilot"
        if party.pilot is None:
            continue
        if federation.learning == "horizontal" or party.role != "feature_holder":
            yield Fault(where, "is only for feature holders of vertical learning", "take it out")
        elif party.pilot == Pilot():
            yield Fault(
                where,
                "says nothing of what may follow the pilot",
                "declare total_loss_1, total_loss_whole, or both",
            )
        if federation.training.private is not None:
            yield Fault(
                where,
                "cannot go with training.private, which promises noise for whatever depends on "
                "labels: what is chosen by a pilot depends on them",
                "take one of them out",
            )
