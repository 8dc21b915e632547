"""Exact releases of a run, without an epsilon: sender, receiver, and what they disclose."""

from opboost_ops.config.federation import Federation
from opboost_ops.pipeline.matching import disclosures
from opboost_ops.pipeline.party import own_table
from opboost_ops.pipeline.runner import mailboxes, runner
from opboost_ops.pipeline.runner.disclosures import EVERYBODY
from opboost_ops.pipeline.steps import (
    announce_champion,
    answer_routes,
    request_routes,
    request_splits,
)
from opboost_ops.privacy import edge_charges

#: Sender, receiver, and what is disclosed.
Exact = tuple[str, str, str]


def exact_releases(federation: Federation) -> list[Exact]:
    """List the exact releases of a run, in the order of the protocol.

    Args:
        federation: As declared.
    """
    if federation.learning == "horizontal":
        return [
            (party, to, discloses)
            for party in federation.parties
            for _, to, discloses in mailboxes.disclosures(party, federation)
        ]
    releases = list(disclosures(federation))
    owner = federation.label_holder
    for party in federation.feature_holders:
        for name, feature in edge_charges.private_edges(federation, party).items():
            words = edge_charges.edges_words(name, feature)
            releases.append((party, edge_charges.EVERYBODY, words))
        releases.append((owner, party, request_splits.DISCLOSES))
        if "routed" in federation.scoring.modes:
            releases.append((owner, party, request_routes.DISCLOSES))
            releases.append((party, owner, answer_routes.DISCLOSES))
    for party in federation.parties:
        releases.append((party, EVERYBODY, runner.TABLE.discloses))
        if federation.schedule.on_tables:
            releases.append((party, EVERYBODY, own_table.DISCLOSES))
    releases.append((owner, EVERYBODY, runner.COMMON_ROWS.discloses))
    releases.append((owner, EVERYBODY, announce_champion.DISCLOSES))
    return releases
