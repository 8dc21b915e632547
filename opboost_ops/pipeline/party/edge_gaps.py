"""Private edges that a party has agreed to and that its ledger has not charged."""

from opboost_ops.config.agreement import federation_of
from opboost_ops.config.policy import Policy
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.pipeline.party import clock
from opboost_ops.privacy.edge_charges import (
    content_of,
    declaration_of,
    edges_loss,
    edges_release,
    uncharged,
)
from opboost_ops.privacy.releases import Release


def missing_edges(state: PartyState, policy: Policy) -> list[Release]:
    """The releases of edges that a rolled-back ledger lacks, at the epsilon that was agreed.

    Args:
        state: The party's.
        policy: Its policy.

    Raises:
        ConfigError: An agreement was changed.
    """
    found: dict[tuple[str, str], Release] = {}
    for agreed in state.agreements.read().agreements:
        federation = federation_of(agreed.content)
        if federation is None or policy.party not in federation.parties:
            continue
        domain = federation.domain.to_domain()
        for name, feature in uncharged(state.releases, federation, policy.party).items():
            edges = feature.private_edges
            assert edges is not None and edges.epsilon is not None
            column = policy.raw_column(name, federation.id.column).strip()
            content = content_of(edges.edges, edges.epsilon)
            found[column, content] = edges_release(
                name,
                column,
                edges_loss(edges, domain),
                declaration_of(column, feature, len(edges.edges) + 1, edges.epsilon, 1),
                clock.today(),
                agreed.federation,
                content,
            )
    return list(found.values())
