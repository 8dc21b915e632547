"""With decoys: what the label holder makes of the release of all of a feature holder's people.

It alone knows which of them are common, and which of these are held out; so it picks their values,
and does at home what a feature holder does otherwise: ranks of the training rows, values of splits.
"""

from collections.abc import Mapping

import pyarrow as pa

from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import narrow_integers
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
    places = narrow_integers(context.home.table(CHOSEN), "position")
    table = release.table
    return pa.table({name: narrow_integers(table, name)[places] for name in table.column_names})


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
    ranks, known = ranks_of(context.columns(holder), values.slice(0, train), private)
    return ranks, values.slice(train), known
