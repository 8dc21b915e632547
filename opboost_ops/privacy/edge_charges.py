"""Private edges in the ledger: one entry a draw of all edges of a column.

The entry is charged to the column as a bit of its own, ``income=edges``. Somebody whose value moves
by one step of the domain may be somebody who moves across an edge, so loss(1) is as large as
loss(R - L): the epsilon for a person who is added, removed or replaced.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from opboost_ops.config.feature import AnyFeature, DrawnEdges
from opboost_ops.config.federation import Federation
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import private_quantiles
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.ledger import EDGES_KEY, Ledger
from opboost_ops.privacy.loss import LossCurve

#: Kind of the entry, and how it is named beside its feature.
EDGES = "edges"

#: Who learns the edges: they stand in the federation file.
EVERYBODY = "everyone who reads the federation file"


def edges_loss(edges: DrawnEdges, domain: Domain) -> LossCurve:
    """The loss curve of private edges, which is flat.

    Args:
        edges: With their epsilon.
        domain: The federation's.
    """
    assert edges.epsilon is not None
    return curve(len(edges.edges) + 1, edges.epsilon, domain)


def curve(cells: int, epsilon: float, domain: Domain) -> LossCurve:
    """The loss curve of a draw of edges.

    Args:
        cells: How many cells they make.
        epsilon: Of the draw.
        domain: The federation's.
    """
    loss = private_quantiles.loss(cells, epsilon)
    return LossCurve(
        mechanism=f"Private quantiles, {cells} cells, epsilon {epsilon:g}",
        epsilon=epsilon,
        loss=(loss,) * (domain.size - 1),
        certificate=True,
    )


def edges_name(column: UUID, edges: Sequence[float], epsilon: float) -> str:
    """Digest of drawn edges, 64 hex digits, by which their entry is found.

    Args:
        column: The column's UUID.
        edges: As declared.
        epsilon: Of the draw.
    """
    facts = [str(column), [float(edge).hex() for edge in edges], float(epsilon).hex()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def entry(
    feature: str, column: UUID, loss: LossCurve, artifact: str, draws: str, **facts: Any
) -> Release:
    """The entry of one draw: it costs its loss once, whatever happens to cells.

    Args:
        feature: Its name.
        column: Its UUID.
        loss: Of the draw.
        artifact: Name of what was drawn from: another table is another draw.
        draws: `edges_name` of what was drawn.
        facts: The rest of a `Release`.
    """
    return Release(
        **{"run": "", "receiver": EVERYBODY, "rows": 0, **facts},
        kind=EDGES,
        artifact=artifact,
        account="local_dp",
        feature=f"{feature}={EDGES}",
        column=column,
        cells=f"{EDGES_KEY}{artifact[:11]}",
        draws=draws,
        draw=Draw(number=1, added=1, worst=1, inputs=1),
        loss=loss,
    )


def private_edges(federation: Federation, party: str) -> dict[str, AnyFeature]:
    """A party's features whose edges are private quantiles, by name.

    Args:
        federation: As declared.
        party: The party.
    """
    features = federation.parties[party].features
    return {name: one for name, one in features.items() if one.private_edges is not None}


def edges_words(name: str, feature: AnyFeature) -> str:
    """What the private edges of a feature disclose.

    Args:
        name: The feature's.
        feature: As declared.
    """
    edges = feature.private_edges
    assert edges is not None
    return (
        f"{len(edges.edges)} edges of {name}, once drawn from its values with noise: epsilon "
        f"{edges.epsilon:g} for a person, charged to {name}"
    )


def uncharged(ledger: Ledger, federation: Federation, party: str) -> dict[str, AnyFeature]:
    """A party's features of whose private edges its ledger has no entry, by name.

    Args:
        ledger: The party's.
        federation: As declared.
        party: The party.
    """
    declared = private_edges(federation, party)
    if not declared:
        return {}
    names = {name: declared_name(feature) for name, feature in declared.items()}
    known = ledger.drawn(EDGES, names.values())
    return {name: declared[name] for name, wanted in names.items() if wanted not in known}


def require_charged(ledger: Ledger, federation: Federation, party: str) -> None:
    """Refuse private edges of which the party's ledger has no entry.

    Args:
        ledger: The party's.
        federation: As declared.
        party: The party.

    Raises:
        BudgetError: They were drawn elsewhere or edited, or the ledger was rolled back.
    """
    if unknown := uncharged(ledger, federation, party):
        names = ", ".join(unknown)
        raise BudgetError(
            f"The ledger of {party} has no entry of the private edges of {names}: they were "
            "edited, drawn elsewhere, or the ledger was rolled back.",
            "Restore the newest backup, charge them with `opboost ledger recover`, or draw edges "
            "with `opboost edges`.",
        )


def declared_name(feature: AnyFeature) -> str:
    """`edges_name` of a feature's private edges as they are declared."""
    edges = feature.private_edges
    assert edges is not None and edges.epsilon is not None
    return edges_name(feature.uuid, edges.edges, edges.epsilon)
