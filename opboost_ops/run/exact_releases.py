"""What a run sends without an epsilon: who sends it, to whom, and what it discloses."""

from opboost_ops.config.federation import Federation
from opboost_ops.privacy.edge_charges import EVERYBODY, edges_words, private_edges
from opboost_ops.run import mailboxes, table_watch
from opboost_ops.stages import answer_routes, checks, request_routes, request_splits
from opboost_ops.stages.disclosures import disclosures

#: Anyone who reads Airflow's pages or a party's summaries.
_EVERYBODY = "everyone who sees the run"

#: Sender, receiver, and what is disclosed.
Exact = tuple[str, str, str]


def exact_releases(federation: Federation) -> list[Exact]:
    """What a run sends without an epsilon, in the order of the protocol.

    Args:
        federation: As declared.
    """
    if federation.learning == "horizontal":
        return [
            (party, to, discloses)
            for party in federation.parties
            for _, to, discloses in mailboxes.disclosures(party, federation)
        ]
    found = list(disclosures(federation))
    owner = federation.label_holder
    for party in federation.feature_holders:
        for name, feature in private_edges(federation, party).items():
            found.append((party, EVERYBODY, edges_words(name, feature)))
        found.append((owner, party, request_splits.DISCLOSES))
        if "routed" in federation.scoring.modes:
            found.append((owner, party, request_routes.DISCLOSES))
            found.append((party, owner, answer_routes.DISCLOSES))
    for party in federation.parties:
        found.append((party, _EVERYBODY, checks.DISCLOSES))
        if federation.schedule.on_tables:
            found.append((party, _EVERYBODY, table_watch.DISCLOSES))
    return found
