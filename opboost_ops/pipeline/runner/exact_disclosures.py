"""Exact disclosures of a training run, derived from the declarations of its steps and kinds."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.kinds import disclosure, kinds_of
from opboost_ops.pipeline.party import own_table
from opboost_ops.pipeline.phases import steps
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.step_types import EVERYBODY
from opboost_ops.privacy import edge_charges

#: Sender, receiver and content of a disclosure without an epsilon.
ExactDisclosure = tuple[str, str, str]


def exact_disclosures_of_run(federation: Federation) -> list[ExactDisclosure]:
    """Return the exact disclosures of a training run, in the order of the protocol.

    Args:
        federation: The federation as declared.
    """
    return list(dict.fromkeys([*_before(federation), *_of_steps(federation)]))


def _before(federation: Federation) -> Iterator[ExactDisclosure]:
    """Yield disclosures outside any step: edges in the federation file, and polls of the tables."""
    for party in federation.feature_holders:
        for name, feature in edge_charges.private_edges(federation, party).items():
            yield party, edge_charges.EVERYBODY, edge_charges.edges_words(name, feature)
    if federation.schedule.on_tables:
        for party in federation.parties:
            yield party, EVERYBODY, own_table.DISCLOSES


def _of_steps(federation: Federation) -> Iterator[ExactDisclosure]:
    kinds = {kind.name: kind for kind in kinds_of(federation, "train")}
    owner = federation.label_holder
    for party, name in steps(federation, "train"):
        for kind in (kinds[sent] for sent in STEPS[name].publishes if sent in kinds):
            readers = (owner,) if kind.reader == "label_holder" else federation.feature_holders
            if words := disclosure(kind.name, federation):
                yield from ((party, reader, words) for reader in readers)
        for _, receiver, words in STEPS[name].disclosures(federation, party):
            yield party, receiver, words
