"""Entries of a ledger as people read them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from opboost_ops.privacy.ledger.entries import LedgerEntry


@dataclass(frozen=True)
class ExactLine:
    """A disclosure without any epsilon, and how often it was made."""

    receiver: str
    kind: str
    times: int
    discloses: str


def exact_lines(entries: Iterable[LedgerEntry]) -> list[ExactLine]:
    """All that has no epsilon, equal entries as one.

    Args:
        entries: Of one party.
    """
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry in entries:
        if entry.account == "exact":
            counts[entry.receiver, entry.kind, entry.discloses] += 1
    return [
        ExactLine(receiver, kind, times, discloses)
        for (receiver, kind, discloses), times in counts.items()
    ]


#: Columns of `plain_line`, in their order.
PLAIN_FIELDS = (
    "recorded_at",
    *(name for name in LedgerEntry.model_fields if name not in ("loss", "curve", "replaced")),
    "mechanism",
    "loss_1",
    "loss_whole",
)


def plain_line(at: str, entry: LedgerEntry) -> dict[str, Any]:
    """A ledger entry for a table of plain cells.

    Args:
        at: When it was reserved.
        entry: The entry.
    """
    plain = entry.model_dump(mode="json", exclude={"loss", "curve", "replaced"})
    line: dict[str, Any] = {"recorded_at": at, **plain}
    if entry.loss is not None:
        line |= {"mechanism": entry.loss.mechanism}
        line |= {"loss_1": entry.loss.loss[0], "loss_whole": entry.loss.loss[-1]}
    return line
