"""Which columns a party's table must have, and what they are called there."""

from collections.abc import Sequence

from opboost_ops.errors import ContractError
from opboost_ops.pipeline.stage import Context


def declared_columns(context: Context) -> list[str]:
    """The columns that the federation declares for this party.

    ID, features, label and weights; new rows need none of the last two.
    """
    federation = context.federation
    party = federation.parties[context.party]
    columns = [federation.id.column, *party.features]
    if party.label and context.purpose == "train":
        columns.append(party.label.column)
        if federation.training.weight_column is not None:
            columns.append(federation.training.weight_column)
    return list(dict.fromkeys(columns))


def raw_names(context: Context, wanted: Sequence[str]) -> dict[str, str]:
    """What declared columns are called in the party's own table: the one place that knows.

    Everything after it goes by declared names, so that a raw name gets into no report or error.

    Args:
        context: The party's.
        wanted: Declared names.

    Returns:
        The raw name of each, in their order.

    Raises:
        ContractError: Two of them are one column.
    """
    identity = context.federation.id.column
    found = {name: context.policy.raw_column(name, identity) for name in wanted}
    all_declared = {*wanted, *declared_columns(context)}
    meant: dict[str, str] = {}
    for name in sorted(all_declared):
        raw = context.policy.raw_column(name, identity)
        if (other := meant.setdefault(raw, name)) != name:
            raise ContractError(
                f"{other} and {name} name the same column of the table of {context.party}.",
                "One column is one feature: check column, columns and id_column in policy.yaml.",
            )
    return found
