"""What a way to find the common people must be able to do; later stages do not ask which it was.

>>> from opboost_ops.stages.alignments import alignment_of
>>> alignment_of("private").answers
'psi_answer'
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.manifest import Kind
from opboost_ops.scratch.arrays import Scratch, let_go, slices
from opboost_ops.stages.stage import Context

#: From whom, to whom, and what.
Told = tuple[str, str, str]


@dataclass(frozen=True)
class Laid:
    """What a feature holder lays out for the label holder.

    Attributes:
        draft: The artifact.
        home: What it keeps at home to find its rows by the label holder's answer.
    """

    draft: Draft
    home: Mapping[str, pa.Table]


@dataclass(frozen=True)
class Answer:
    """What a feature holder is told of its rows, as an artifact has it.

    Attributes:
        table: One row a common person, in the common order.
        entries: Bits, by the order of the holder's own list.
    """

    table: pa.Table | None = None
    entries: np.ndarray | None = None


@dataclass(frozen=True)
class Common:
    """The people whom all parties have, as the label holder knows them.

    Attributes:
        rows: Rows of its own table, in the order of its own digests, integers, shape (c,).
        tails: Gives the last eight bytes of these digests, as numbers, uint64, block by block.
        told: What a feature holder is told: given its name, and which of them are held out, bool,
            shape (c,).
    """

    rows: np.ndarray
    tails: Callable[[], Iterator[np.ndarray]]
    told: Callable[[str, np.ndarray], Answer]


def in_common_order(scratch: Scratch, rows: np.ndarray, held: np.ndarray, train: int) -> np.ndarray:
    """The common order: training rows first, each side by the label holder's digests.

    Args:
        scratch: Where it is, if it is more than that holds.
        rows: Of the common people in the order of these digests, integers, shape (c,).
        held: Which of them are held out, bool, shape (c,).
        train: How many are not.

    Returns:
        The same rows, shape (c,).
    """
    found = scratch.zeros(len(rows), rows.dtype)
    ends = {False: 0, True: train}
    for some in slices(len(rows)):
        for side, end in ends.items():
            chosen = rows[some][held[some] == side]
            ends[side] = end + len(chosen)
            found[end : ends[side]] = chosen
        let_go()
    return found


class Alignment(Protocol):
    """A way to find the common people."""

    @property
    def answers(self) -> Kind:
        """The kind of artifact, of each feature holder, that the alignment answers."""

    def lay_out(self, context: Context) -> Laid:
        """What a feature holder sends beside the label holder's first stages."""

    def find(self, context: Context) -> Common:
        """The common people, at the label holder."""

    def disclosures(self, federation: Federation) -> Iterator[Told]:
        """What leaves, exact, with no epsilon."""

    def nobody(self) -> str:
        """What to look at where nobody is common to all."""
