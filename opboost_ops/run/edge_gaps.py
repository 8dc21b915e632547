"""Private edges that a party has agreed to, and of whose draw its ledger knows nothing."""

import hashlib
from uuid import UUID

from opboost_ops.config.feature import DrawnEdges
from opboost_ops.domain import Domain
from opboost_ops.exchange.party_state import PartyState
from opboost_ops.privacy.edge_charges import EDGES, edges_loss, edges_name, entry
from opboost_ops.privacy.events import Release


def missing_entries(state: PartyState, party: str) -> list[Release]:
    """The entries that a rolled-back ledger lacks, at the epsilon that was agreed.

    Args:
        state: The party's.
        party: Its name.

    Raises:
        ConfigError: An agreement was changed.
    """
    found: dict[str, Release] = {}
    for agreed in state.agreements.read().agreements:
        federation = agreed.content["federation"]
        domain = Domain(federation["domain"]["lower"], federation["domain"]["upper"])
        for name, feature in federation["parties"].get(party, {}).get("features", {}).items():
            scale = feature.get("scale")
            if not isinstance(scale, dict) or scale.get("epsilon") is None:
                continue
            edges, column = DrawnEdges.model_validate(scale), UUID(feature["uuid"])
            drawn = edges_name(column, edges.edges, scale["epsilon"])
            artifact = hashlib.sha256(f"recovered edges/{drawn}".encode()).hexdigest()
            facts = {"federation": agreed.federation, "party": party, "recovered": True}
            loss = edges_loss(edges, domain)
            found[drawn] = entry(name, column, loss, artifact, drawn, **facts)
    known = state.ledger.drawn(EDGES, found) if found else set()
    return [line for drawn, line in found.items() if drawn not in known]
