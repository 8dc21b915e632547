"""A party's raw rows in the common order: each block's are put to their places as it is read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.pipeline.inputs.raw_blocks import unchanged_blocks
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import Scratch, slices
from opboost_ops.tables.spill.parts import scatter


def places_of(scratch: Scratch, positions: np.ndarray, height: int) -> np.ndarray:
    """Where each row of a list stands in a choice of them, from 1; 0 for one that is not wanted.

    Args:
        scratch: Where it is told, if it is more than that holds.
        positions: Which rows, in the order that is wanted, integers, shape (n,).
        height: How many rows the list has.

    Returns:
        Integers, shape (height,).
    """
    numbered = (
        (positions[some], {"": np.arange(some.start + 1, some.stop + 1)})
        for some in slices(len(positions))
    )
    kind = np.min_scalar_type(len(positions))
    return scatter(scratch, numbered, height, {"": kind})[""]


class CommonRows:
    """Some rows of a party's table; never is more than a block in memory.

    Args:
        context: The party's.
        positions: Which rows, in the order that is wanted, integers, shape (n,).
    """

    def __init__(self, context: Context, positions: np.ndarray) -> None:
        self._context = context
        self._rows = len(positions)
        height = context.home.json("table")["rows"]
        self._places = places_of(context.home.scratch, positions, height)

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[np.ndarray, pl.DataFrame]]:
        """Places of a block's wanted rows, and these rows, in the order of the table.

        Args:
            names: Which columns.

        Raises:
            ContractError: The table was rewritten, or cannot be read as declared.
        """
        for begin, block in unchanged_blocks(self._context, names):
            place = self._places[begin : begin + block.height]
            wanted = place > 0
            block = block.filter(pl.Series(wanted))
            yield place[wanted] - 1, block
            del block  # Before the next one is read.

    def columns(
        self,
        names: Sequence[str],
        make: Callable[[pl.DataFrame], Mapping[str, np.ndarray]],
        kinds: Mapping[str, Any],
    ) -> dict[str, np.ndarray]:
        """Columns made of the rows, in the order that is wanted.

        Args:
            names: Which columns are read.
            make: Makes columns of a block's rows, shape (k,) each.
            kinds: The type of each.

        Returns:
            Shape (n,) each, in memory or on disk.
        """
        pieces = ((places, make(frame)) for places, frame in self.blocks(names))
        return scatter(self._context.home.scratch, pieces, self._rows, kinds)
