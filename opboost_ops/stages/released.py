"""Which rows of its table a feature holder releases, in which order, and what that answers.

As a rule these are the common ones, which the label holder tells it: training rows first, in the
common order. With decoys nothing is told: they are all rows, in the order of the tags that were
laid out, which is a function of the set of IDs and of the run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.scratch.arrays import let_go, slices
from opboost_ops.stages.positions import ORDER, aligned_rows
from opboost_ops.stages.stage import Context


@dataclass(frozen=True)
class Released:
    """What a feature holder is about to release.

    Attributes:
        train: How many training rows, of which ranks leave; they come first.
        others: How many others, of which values leave.
        answers: Digest of the artifact that the release answers.
        rows: Gives the rows of its own table, integers, shape (train + others,).
    """

    train: int
    others: int
    answers: str
    rows: Callable[[], np.ndarray]

    @property
    def count(self) -> int:
        """How many rows."""
        return self.train + self.others


def released(context: Context) -> Released:
    """What a feature holder is about to release in this run.

    Args:
        context: Its own.

    Raises:
        ContractError: With decoys, the label holder's query was not answered yet.
        ArtifactError: Without, there is no alignment; or it is not what it must be.
    """
    if context.federation.has_decoys:
        return _everybody(context)
    alignment = context.receive("alignment", context.party)
    sides = alignment.document
    return Released(
        sides["train"],
        sides["holdout"],
        alignment.digest,
        lambda: aligned_rows(context, alignment),
    )


def _everybody(context: Context) -> Released:
    assert context.acceptance is not None
    memory = context.acceptance.memory
    laid = memory.entry("digests", context.party)
    # Its policy may have refused to answer: then nothing leaves, either.
    if laid is None or memory.entry("psi_answer", context.party) is None:
        raise ContractError(
            f"{context.party} has not answered the label holder's query in this run.",
            "Run its psi_answer first.",
        )

    def rows() -> np.ndarray:
        listed = narrow_integers(context.home.table(ORDER), "row")
        found, end = context.home.scratch.zeros(laid.rows, listed.dtype), 0
        for some in slices(len(listed)):
            # The message that every party adds is in the list, and is nobody's row.
            people = listed[some][listed[some] < laid.rows]
            begin, end = end, end + len(people)
            found[begin:end] = people
            let_go()
        return found

    return Released(0, laid.rows, laid.digest, rows)
