"""Rounds: every party makes a vector of its own rows, and one of them decides by the sum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from opboost_ops.config.schema import Record
from opboost_ops.errors import ContractError

#: Name of the logger that says how far the rounds are, and whom a party waits for.
LOGGER = "opboost_ops.rounds"

Phase = Literal["facts", "lookup", "trees"]

Decision = TypeVar("Decision", bound=Record)


@dataclass(frozen=True)
class Round:
    """Which round it is.

    Attributes:
        phase: What the sums are for.
        tree: Number of the boosting round, from 0.
        level: Number within the phase or tree, from 0.
    """

    phase: Phase
    tree: int = 0
    level: int = 0

    @property
    def name(self) -> str:
        """Its name, which is plain and sorts in the order of the rounds."""
        return f"{self.phase}-{self.tree:05d}-{self.level:02d}"

    def __str__(self) -> str:
        if self.phase == "trees":
            return f"tree {self.tree + 1}, level {self.level + 1}"
        return "facts" if self.phase == "facts" else f"quantile lookup, round {self.level + 1}"

    def unfit(self) -> ContractError:
        """The error for a decision that does not fit the round."""
        return ContractError(
            f"{self}: the decision does not fit the round.",
            "Bring all parties to the same release of this software, and trigger a new run.",
        )


class Rounds(Protocol):
    """How vectors become decisions."""

    @property
    def parties(self) -> int:
        """How many add up."""
        ...

    @property
    def derives(self) -> bool:
        """True if the sums of a node may be derived from its parent's and its sibling's."""
        ...

    def total(self, name: Round) -> np.ndarray:
        """The sum of a round of this tree that was decided at an earlier try; int64.

        Args:
            name: Which one.
        """
        ...

    def step(
        self,
        name: Round,
        size: int,
        vector: Callable[[], np.ndarray],
        decide: Callable[[np.ndarray], Decision],
        form: type[Decision],
        bounds: Sequence[int] = (),
    ) -> Decision:
        """One round; neither function is called if its decision is known from an earlier try.

        Args:
            name: Which one.
            size: How many integers the vector has.
            vector: Makes this party's, int64, shape (size,).
            decide: Makes the decision of the sum; called at one party only.
            form: The decision's type.
            bounds: What no sum's absolute value passes, for the integers in turn; public, because
                a vector's length follows from them. Below 2^63 when absent.
        """
        ...


class Alone:
    """All rows are at one party."""

    parties = 1
    derives = True

    def total(self, name: Round) -> np.ndarray:
        """See `Rounds.total`; there is no earlier try."""
        raise NotImplementedError(str(name))

    def step(
        self,
        name: Round,
        size: int,
        vector: Callable[[], np.ndarray],
        decide: Callable[[np.ndarray], Decision],
        form: type[Decision],  # noqa: ARG002
        bounds: Sequence[int] = (),  # noqa: ARG002
    ) -> Decision:
        """See `Rounds.step`."""
        return decide(self._sum(name, size, vector))

    def _sum(
        self,
        name: Round,  # noqa: ARG002
        size: int,  # noqa: ARG002
        vector: Callable[[], np.ndarray],
    ) -> np.ndarray:
        return vector()
