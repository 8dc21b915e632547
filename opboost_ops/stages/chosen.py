"""With decoys: what the label holder makes of the release of all of a feature holder's people.

It alone knows which of them are common, and which of these are held out; so it picks their values,
and does at home what a feature holder does otherwise: ranks of the training rows, values of splits.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.scratch.parts import scattered
from opboost_ops.stages.common_rows import places_of
from opboost_ops.stages.rank import ranks_of
from opboost_ops.stages.stage import Context

#: Name of the table of places, in the release, of the common people in the common order.
CHOSEN = "chosen"

#: Name of what each rank stands for, by feature holder and column.
RANK_VALUES = "rank_values"


def chosen(context: Context, release: Artifact) -> pa.Table:
    """The values of the common people, in the common order.

    Args:
        context: The label holder's.
        release: Values of all people of the only feature holder, accepted.
    """
    scratch, tables = context.home.scratch, release.pieces()
    positions = narrow_integers(context.home.table(CHOSEN), "position")
    places = places_of(scratch, positions, release.manifest.rows)
    first = next(tables)
    names = first.column_names

    def pieces() -> Iterator[tuple[np.ndarray, Mapping[str, np.ndarray]]]:
        end = 0
        for table in chain((first,), tables):
            begin, end = end, end + table.num_rows
            wanted = places[begin:end] > 0
            values = {name: narrow_integers(table, name)[wanted] for name in names}
            yield places[begin:end][wanted] - 1, values

    kinds = {name: narrow_integers(first, name).dtype for name in names}
    found = scattered(scratch, pieces(), len(positions), kinds)
    return pa.table({name: pa.array(column) for name, column in found.items()})


def as_released(
    context: Context, holder: str, release: Artifact, train: int
) -> tuple[pa.Table, pa.Table, Mapping[str, list[int]]]:
    """Ranks of training rows and values of held-out ones, as a feature holder releases them.

    Args:
        context: The label holder's.
        holder: Whose columns they are.
        release: Values of all its people, accepted.
        train: How many of the common people are to be trained on.

    Returns:
        The ranks, the values, and what each rank stands for, by column.
    """
    values = chosen(context, release)
    private = context.federation.training.trainer == "dpboost"
    ranks, known = ranks_of(
        context.columns(holder), values.slice(0, train), private, scratch=context.home.scratch
    )
    return ranks, values.slice(train), known
