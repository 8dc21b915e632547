"""Private edges: drawn once per column, number of cells, epsilon and draw number, and charged.

A person whose value moves by one step of the domain may cross an edge, so loss(1) equals
loss(R - L): the epsilon for a person who is added, removed or replaced.
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import date
from typing import Any
from uuid import uuid4

from opboost_ops.config.columns import canonical
from opboost_ops.config.feature import Edges, Feature
from opboost_ops.config.federation import Federation
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.mechanisms import private_quantiles
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.release_records import Release
from opboost_ops.privacy.releases import Releases

#: Suffix of the charge after the feature's name.
EDGES = "edges"

#: Receiver of the edges, which are part of the federation file.
EVERYBODY = "everyone who reads the federation file"


def edges_loss(edges: Edges, domain: Domain) -> LossCurve:
    """Return the loss curve of private edges, which is constant.

    Args:
        edges: The edges with their epsilon.
        domain: Domain of the federation.
    """
    assert edges.epsilon is not None
    return curve(len(edges.edges) + 1, edges.epsilon, domain)


def curve(cells: int, epsilon: float, domain: Domain) -> LossCurve:
    """Return the loss curve of a draw of edges.

    Args:
        cells: Number of cells.
        epsilon: Epsilon of the draw.
        domain: Domain of the federation.
    """
    loss = private_quantiles.loss(cells, epsilon)
    return LossCurve(
        mechanism=f"Private quantiles, {cells} cells, epsilon {epsilon:g}",
        epsilon=epsilon,
        loss=(loss,) * (domain.size - 1),
        certificate=True,
    )


def content_of(edges: Sequence[float], epsilon: float) -> str:
    """Serialise drawn edges for their release.

    Args:
        edges: In the feature's unit, ascending.
        epsilon: Epsilon of the draw.
    """
    return json.dumps([[float(edge).hex() for edge in edges], float(epsilon).hex()])


def edges_in(release: Release) -> tuple[float, ...]:
    """Return the edges of a release.

    Args:
        release: A release of kind ``edges``.
    """
    edges, _ = json.loads(release.content)
    return tuple(map(float.fromhex, edges))


def edges_release(
    feature: str,
    column: str,
    loss: LossCurve,
    declaration: str,
    day: date,
    federation: str,
    content: str = "",
) -> Release:
    """Create the release of one draw.

    Args:
        feature: Name of the feature.
        column: Name of the raw column.
        loss: Loss curve of the draw.
        declaration: Digest from `declaration_of`.
        day: Day of the draw.
        federation: Name of the federation.
        content: Text from `content_of`; empty before the draw.
    """
    return Release(
        id=uuid4().hex,
        kind="edges",
        feature=feature,
        column=column,
        receiver=EVERYBODY,
        federation=federation,
        declaration=declaration,
        opened=day,
        run="",
        losses={f"{feature}={EDGES}": loss},
        content=content,
    )


def declaration_of(column: str, feature: Feature, cells: int, epsilon: float, number: int) -> str:
    """Return the ID of a draw, 64 hex digits; each ID is drawn once, whatever the table contains.

    Args:
        column: Name of the raw column.
        feature: The declared feature.
        cells: Number of cells.
        epsilon: Epsilon of the draw.
        number: Number of the draw, from 1.
    """
    bounds = [float(bound).hex() for bound in feature.bounds or ()]
    content: list[Any] = ["edges", column, bounds, cells, float(epsilon).hex(), number]
    return hashlib.sha256(canonical(content)).hexdigest()


def private_edges(federation: Federation, party: str) -> dict[str, Feature]:
    """Return a party's features with private edges, by name.

    Args:
        federation: The declared federation.
        party: The party.
    """
    features = federation.parties[party].features
    return {
        name: feature for name, feature in features.items() if feature.private_edges is not None
    }


def edges_costs(federation: Federation, party: str) -> dict[str, float]:
    """The loss of a party's private edges, by feature.

    Args:
        federation: As declared.
        party: The party.
    """
    shared = federation.domain.to_domain()
    return {
        name: float(edges_loss(feature.private_edges, feature.domain_in(shared)).loss[-1])
        for name, feature in private_edges(federation, party).items()
        if feature.private_edges is not None
    }


def edges_words(name: str, feature: Feature) -> str:
    """Describe the disclosure by the private edges of a feature.

    Args:
        name: Name of the feature.
        feature: The declared feature.
    """
    edges = feature.private_edges
    assert edges is not None
    return (
        f"{len(edges.edges)} edges of {name}, once drawn from its values with noise: epsilon "
        f"{edges.epsilon:g} for a person, charged to {name}"
    )


def uncharged(releases: Releases, federation: Federation, party: str) -> dict[str, Feature]:
    """Return a party's features whose private edges its ledger has not charged, by name.

    Args:
        releases: The party's releases.
        federation: The declared federation.
        party: The party.
    """
    declared = private_edges(federation, party)
    if not declared:
        return {}
    charged = {release.content for release in releases.all() if release.kind == "edges"}
    missing: dict[str, Feature] = {}
    for name, feature in declared.items():
        edges = feature.private_edges
        assert edges is not None and edges.epsilon is not None
        if content_of(edges.edges, edges.epsilon) not in charged:
            missing[name] = feature
    return missing


def require_charged(releases: Releases, federation: Federation, party: str) -> None:
    """Reject private edges that the party's ledger has not charged.

    Args:
        releases: The party's releases.
        federation: The declared federation.
        party: The party.

    Raises:
        BudgetError: The edges were edited or drawn elsewhere, or the ledger was rolled back.
    """
    if unknown := uncharged(releases, federation, party):
        names = ", ".join(unknown)
        raise BudgetError(
            f"The ledger of {party} has not charged the private edges of {names}: they were "
            "edited, drawn elsewhere, or the ledger was rolled back.",
            "Restore the newest backup, charge them with `opboost ledger recover`, or draw edges "
            "with `opboost edges`.",
        )
