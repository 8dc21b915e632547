"""Arrow: a checked release -> the signed ordinal artifact and held-out rows, or new rows."""

import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.mechanisms import LocalMap
from opboost_ops.privacy.charges import Charges
from opboost_ops.privacy.consent import require_consent
from opboost_ops.privacy.loss import column_losses
from opboost_ops.stages.held import charged_draws
from opboost_ops.stages.stage import Context, Outcome


def publish(context: Context) -> Outcome:
    """Publish ranks of the training rows and randomised values of held-out, new or all rows.

    Raises:
        ContractError: The release was not checked, or is not what was drawn.
        PolicyError: The party's policy does not allow it.
    """
    context.home.json("checked_release")
    require_consent(context.policy, context.federation, context.party)
    facts = context.home.json("preprocessed")
    columns = context.columns()
    losses = column_losses(columns)
    names = tuple(column.name for column in columns)

    def draft(kind: Kind, table: pa.Table) -> Draft:
        return Draft(
            kind=kind,
            about=context.party,
            table=table,
            rows=table.num_rows,
            columns=names,
            losses=losses,
            answers=facts["alignment"],
            discloses="",
        )

    held_out = context.home.table("randomised").slice(facts["train"])
    drafts: tuple[Draft, ...] = (draft("values", held_out),)
    if "rank" in context.stages:
        drafts = (draft("ranks", context.home.table("ranks")), draft("holdout", held_out))
    charges = _charges(context, columns)
    return Outcome(
        drafts=drafts,
        charges=charges,
        summary={"rows": facts["train"], "holdout": facts["holdout"]},
    )


def _charges(context: Context, columns: tuple[Column, ...]) -> Charges:
    positions = narrow_integers(context.home.table("positions"), "position")
    draws = charged_draws(context, positions)
    secret = context.noise_secret()
    keys: dict[str, str] = {}
    edges: dict[str, tuple[float, ...]] = {}
    for column in columns:
        keys[column.charge] = column.noise_context(secret).hex()[:16]
        if found := disclosed_edges(context.federation, context.party, column):
            edges[column.charge] = found
    return Charges(keys, draws, edges)


def disclosed_edges(federation: Federation, party: str, column: Column) -> tuple[float, ...]:
    """Where partitions begin that a column's mechanism discloses exactly, in the feature's unit.

    Args:
        federation: The plan's.
        party: Whose column it is.
        column: The column.
    """
    if not isinstance(column.mechanism, LocalMap):
        return ()
    mapping = federation.parties[party].features[column.feature].domain_map(column.domain)
    starts = column.mechanism.partitions(column.domain).starts[1:]
    return tuple(mapping.boundary(start) for start in starts)
