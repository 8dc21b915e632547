"""Linear, log1p and declared cells of one column at equal loss, in steps and in raw units."""

from dataclasses import dataclass

import numpy as np

from opboost_ops.config.feature import Edges
from opboost_ops.config.federation import Federation
from opboost_ops.domain import DomainMap
from opboost_ops.mechanisms import Geometric
from opboost_ops.mechanisms.geometric import LEAST_EPSILON
from opboost_ops.privacy.cell_widths import raw_losses
from opboost_ops.privacy.domain_sizes import kept
from opboost_ops.privacy.edge_charges import edges_loss
from opboost_ops.privacy.loss import loss_curve

#: What edges are called by where they come from.
_EDGES = {
    "declared": "declared edges",
    "public_sample": "edges of a public sample",
    "private_quantiles": "private edges",
    "private_table": "edges of the private table",
}


@dataclass(frozen=True)
class ScaleLine:
    """A column on one kind of cells.

    Attributes:
        cells: Which.
        edges: What their edges cost, which is part of every loss.
        loss_1: Of a step of the domain.
        near: A step of equal cells, in the feature's unit.
        loss_near: Of values so far apart, at worst.
        loss_whole: Of any two values.
        narrowest: Width of the narrowest cell, in the feature's unit.
        kept: Share of the variance of public rows that the best guess from a released value
            explains; None without a sample.
    """

    cells: str
    edges: float
    loss_1: float
    near: float
    loss_near: float
    loss_whole: float
    narrowest: float
    kept: float | None


def compare_scales(
    federation: Federation, party: str, name: str, sample: np.ndarray | None = None
) -> list[ScaleLine]:
    """The kinds of cells that a column may lie on, through the clamped geometric mechanism.

    All have the loss of one step that the column has as declared, its edges included.

    Args:
        federation: As declared.
        party: The feature holder.
        name: Of a numeric feature with bounds and a mechanism.
        sample: Public raw values, shape (n,).
    """
    feature, domain = federation.parties[party].features[name], federation.domain.to_domain()
    assert feature.bounds is not None and feature.mechanism is not None
    cost = 0.0
    if (private := feature.private_edges) is not None:
        cost = float(edges_loss(private, domain).loss[0])
    total = float(loss_curve(feature.mechanism, domain).loss[0]) + cost
    maps = {
        "linear": DomainMap(domain, feature.bounds),
        "log1p": DomainMap(domain, feature.bounds, "log1p"),
    }
    if isinstance(feature.scale, Edges):
        maps[_EDGES[feature.scale.source]] = feature.domain_map(domain)
    lines: list[ScaleLine] = []
    for cells, mapping in maps.items():
        edges = cost if cells == _EDGES["private_quantiles"] else 0.0
        epsilon = float(f"{total - edges:.6g}")
        if not LEAST_EPSILON <= epsilon < float("inf"):
            continue
        mechanism = Geometric(epsilon=epsilon)
        found = raw_losses(mapping, loss_curve(mechanism, domain), None, edges)
        share = None if sample is None else kept(sample, mapping, mechanism, domain)[0]
        lines.append(
            ScaleLine(
                cells,
                edges,
                found.loss_1,
                found.near,
                found.loss_near,
                found.loss_whole,
                found.narrowest,
                share,
            )
        )
    return lines
