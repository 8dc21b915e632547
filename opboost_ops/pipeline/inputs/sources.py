"""The copy of a party's table in a run, which all that comes after reads.

It lies in the run's folder, so that retention removes it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError
from opboost_ops.exchange.party_state import forgotten_of
from opboost_ops.pipeline.stage import COPY, Context, Home, table_of
from opboost_ops.tables.column_types import Expected, Kind, expected_feature, expected_label
from opboost_ops.tables.copies import copy
from opboost_ops.tables.people import PEOPLE, people_of
from opboost_ops.tables.sorted_copy import Kept
from opboost_ops.tables.spill.files import working_folder


def take(context: Context) -> None:
    """Make the run's copy of the party's table, unless the run has checked one already.

    Args:
        context: The party's.

    Raises:
        OpBoostError: The source cannot be read, or the disk has too little room.
        ConnectionError: A server cannot be reached: trying again may help.
    """
    table = _table(context)
    target = context.home.folder / COPY
    if not isinstance(table, Source) or (context.home.has("table") and target.is_file()):
        return
    people = people_of(context.site, context.policy, context.federation.name, context.federation.id)
    columns = expected_columns(
        context.federation, context.policy, context.party, context.purpose == "train"
    )
    copied = copy(table, context.party, target, columns, people, _kept(context))
    if copied.people:
        context.home.write_json(PEOPLE, copied.people)


def _table(context: Context) -> Path | Source:
    return table_of(context.site, context.federation.name, context.federation.id, context.purpose)


@contextmanager
def borrowed(context: Context) -> Iterator[Context]:
    """A context of no run whose table can be read: a source is copied, and removed afterwards.

    Args:
        context: The party's.

    Raises:
        OpBoostError: As `take`.
    """
    if not isinstance(_table(context), Source):
        yield context
        return
    with working_folder(context.site.home, ".table-") as folder:
        lent = replace(context, home=Home(folder))
        try:
            take(lent)
        except ConnectionError as error:
            failure = str(error)
        else:
            failure = ""
        if failure:
            raise ContractError(failure, "Try again when the server can be reached.")
        yield lent


def _kept(context: Context) -> Kept | None:
    """Leaves out whom the party has forgotten: the copy would hold what the source still has."""
    forgotten = forgotten_of(context.site)
    if not len(forgotten):
        return None
    kind = context.federation.id.type

    def kept(ids: pl.Series) -> pl.Series:
        # IDs of another type than declared, or missing ones, are for a later check.
        plain = ids.cast(pl.String if kind == "string" else pl.Int64, strict=False)
        present = plain.is_not_null().to_numpy()
        mask = np.ones(len(plain), dtype=bool)
        mask[present] = forgotten.keep(plain.drop_nulls().to_arrow(), kind)
        return pl.Series(mask)

    return kept


def expected_columns(
    federation: Federation, policy: Policy, party: str, train: bool
) -> dict[str, Expected]:
    """The declared columns of a party's table, by raw name.

    Args:
        federation: As declared.
        policy: The party's, which may call a column otherwise.
        party: Which.
        train: Whether its label counts.
    """
    identity, declared = federation.id, federation.parties[party]
    columns = [expected_feature(name, feature) for name, feature in declared.features.items()]
    kind: Kind = "text" if identity.type == "string" else "number"
    columns += [Expected(name, kind) for name in identity.parts]
    if declared.label is not None:
        # In mode local, the label holder's own table has the others' columns, too.
        columns += [
            expected_feature(f"{holder}.{name}", feature)
            for holder in federation.feature_holders
            for name, feature in federation.parties[holder].features.items()
        ]
        label = expected_label(declared.label) if train else None
        columns += [] if label is None else [label]
        if train and federation.training.weight_column is not None:
            columns.append(Expected(federation.training.weight_column, "number"))
    return {policy.raw_column(column.name, identity.column): column for column in columns}
