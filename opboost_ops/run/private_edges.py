"""`opboost edges --private`: edges of cells drawn from a party's own table, charged to its ledger.

The noise is keyed by the party's secret, the column, its bounds, what was asked for and the counts
that were drawn from. So the same table gives the same edges again, which says nothing new and costs
nothing; any other table is another draw, and is charged. Only the party itself can ask: no run, no
plan and no form draws edges.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

import numpy as np

from opboost_ops.config.declared_map import canonical
from opboost_ops.config.feature import Feature
from opboost_ops.errors import ConfigError, ContractError, PolicyError
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.mechanisms import noise, private_quantiles
from opboost_ops.privacy import edge_charges
from opboost_ops.privacy.budgets import Budget
from opboost_ops.privacy.consent import require_own_columns
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.run.publication import SEEDED
from opboost_ops.stages import raw_table
from opboost_ops.stages.raw_blocks import whole_table
from opboost_ops.stages.sources import borrowed
from opboost_ops.stages.stage import Context


@dataclass(frozen=True)
class PrivateEdges:
    """Edges that were drawn for a column.

    Attributes:
        edges: In the feature's unit, rising.
        epsilon: As asked for.
        loss: What they cost a person, at any distance.
        charged: Whether this was a new draw.
    """

    edges: tuple[float, ...]
    epsilon: float
    loss: float
    charged: bool

    @property
    def scale(self) -> dict[str, object]:
        """The feature's ``scale`` in the federation file."""
        return {"edges": list(self.edges), "epsilon": self.epsilon}


@dataclass(frozen=True)
class _Counted:
    """A column as the mechanism sees it: how many values lie at or below each point of its grid."""

    points: np.ndarray
    below: np.ndarray
    people: int


def draw_edges(
    context: Context, columns: Mapping[str, int], epsilon: float
) -> dict[str, PrivateEdges]:
    """Draw the edges of some columns: all are charged, or none is drawn.

    Missing values and forgotten people do not count.

    Args:
        context: The party's, of no run.
        columns: How many cells, by feature.
        epsilon: Of each column, for a person who is added, removed or replaced.

    Raises:
        ConfigError: A feature takes no edges, the numbers are out of range, or there are too few
            people for them.
        ContractError: The table cannot be read, or somebody is in it twice.
        PolicyError: A feature is not in the policy, or its columns are not those that it pins.
        BudgetError: They would exceed a budget.
    """
    require_own_columns(context.policy, context.federation, context.party)
    features = {name: _numeric(context, name) for name in columns}
    domain = context.federation.domain.to_domain()
    for cells in columns.values():
        if cells > domain.size:
            raise ConfigError(f"{cells} cells are more than the domain's {domain.size} values.")
    losses = {name: edge_charges.curve(n, epsilon, domain) for name, n in columns.items()}
    for name in losses:
        if name not in context.policy.features:
            raise PolicyError(
                f"{name} is not among the features of {context.party}'s policy.",
                "Nothing was drawn. Its owner may add it to policy.yaml.",
            )
    with borrowed(context) as lent:
        counted = _counted(lent, features)
    for name, cells in columns.items():
        _require_enough(name, cells, epsilon, counted[name].people)
    with open_state(context.site) as state, state.together():
        return _drawn(context, state, features, columns, losses, counted)


def _drawn(
    context: Context,
    state: PartyState,
    features: Mapping[str, Feature],
    columns: Mapping[str, int],
    losses: Mapping[str, LossCurve],
    counted: Mapping[str, _Counted],
) -> dict[str, PrivateEdges]:
    secret = context.site.noise_secret()
    keys = {
        name: _key(secret, feature, columns[name], losses[name].epsilon, counted[name])
        for name, feature in features.items()
    }
    artifacts = {name: noise.keyed_by(key, "name of the draw").hex() for name, key in keys.items()}
    known = state.ledger.known(artifacts.values())
    facts = {
        "federation": context.federation.name,
        "party": context.party,
        "noise": noise.fingerprint(secret),
        "experiment": secret.startswith(SEEDED),
    }
    new = {
        name: edge_charges.entry(name, features[name].uuid, losses[name], artifact, "", **facts)
        for name, artifact in artifacts.items()
        if artifact not in known
    }
    budget = Budget(context.policy, {one.uuid: name for name, one in features.items()})
    if new:
        # Before anything is drawn; the entries themselves have what was drawn.
        state.ledger.require(list(new.values()), budget)
    found: dict[str, PrivateEdges] = {}
    for name, key in keys.items():
        loss = losses[name]
        edges = _edges(counted[name], columns[name], loss.epsilon, key)
        found[name] = PrivateEdges(edges, loss.epsilon, float(loss.loss[0]), name in new)
        if name in new:
            drawn = edge_charges.edges_name(features[name].uuid, edges, loss.epsilon)
            new[name] = new[name].model_copy(update={"draws": drawn})
    state.ledger.reserve(list(new.values()), budget)
    if new:
        detail = f"edges of {', '.join(new)} drawn at epsilon {loss.epsilon:g} each"
        state.audit.add("noted", "ledger", context.party, detail=detail)
    return found


def _require_enough(name: str, cells: int, epsilon: float, people: int) -> None:
    """Refuse a draw that would say nothing of where people are, before it is paid for."""
    off, wanted = private_quantiles.people_off(cells, epsilon), people / cells
    if off > wanted:
        raise ConfigError(
            f"At epsilon {epsilon:g} the {cells - 1} edges of {name} would lie {off:,.0f} people "
            f"or more from where they should, and a cell should hold {wanted:,.0f}.",
            "Nothing was drawn. Ask for fewer cells, or for a larger epsilon.",
        )


def _key(secret: bytes, feature: Feature, cells: int, epsilon: float, counted: _Counted) -> bytes:
    """The key of a draw, 32 bytes: another column, declaration or count has another one."""
    asked = canonical([
        str(feature.uuid),
        [point.hex() for point in counted.points.tolist()],
        cells,
        str(Fraction(epsilon)),
        counted.people,
    ])  # fmt: skip
    digest = hashlib.sha256(asked + counted.below.astype("<i8").tobytes()).hexdigest()
    return noise.keyed_by(secret, f"edges:{digest}")


def _edges(counted: _Counted, cells: int, epsilon: float, key: bytes) -> tuple[float, ...]:
    table = private_quantiles.weights(cells, epsilon)
    numbers = count()

    def uniform(bound: int) -> int:
        return noise.uniform_below(key, next(numbers), bound)

    places = private_quantiles.draw(counted.below, counted.people, table, cells, uniform)
    return tuple(float(counted.points[at]) for at in places)


def _numeric(context: Context, name: str) -> Feature:
    federation, party = context.federation, context.party
    feature = federation.parties[party].features.get(name)
    if feature is None or federation.parties[party].role != "feature_holder":
        known = ", ".join(numeric_features(context)) or "none"
        raise ConfigError(
            f"{party} releases no column {name}.", f"It may draw edges for these: {known}."
        )
    if feature.type != "numeric" or feature.bounds is None:
        raise ConfigError(
            f"{name} is not a number with declared bounds, so it takes no edges.",
            "Declare bounds first: public facts, not read from the data.",
        )
    return feature


def numeric_features(context: Context) -> tuple[str, ...]:
    """The columns of a party that take edges: numbers with bounds, not of two values.

    Args:
        context: The party's.
    """
    features = context.federation.parties[context.party].features
    return tuple(
        name
        for name, feature in features.items()
        if feature.type == "numeric" and feature.bounds not in (None, (0.0, 1.0))
    )


def _counted(context: Context, features: Mapping[str, Feature]) -> dict[str, _Counted]:
    """Counts of each column's values, of people who are there once."""
    identity = context.federation.id.column
    frame = whole_table(context, [identity, *features])
    ids = frame.get_column(identity)
    if ids.null_count() or ids.is_duplicated().any():
        raise ContractError(
            f"In the table of {context.party} somebody has no ID, or more than one row.",
            "Nothing was drawn. Keep one row a person: the epsilon is for a person.",
        )
    found: dict[str, _Counted] = {}
    for name, feature in features.items():
        column = frame.get_column(name)
        values = raw_table.numbers(column, feature)[~raw_table.missing(column)]
        assert feature.bounds is not None
        points = private_quantiles.grid(feature.bounds)
        below = np.searchsorted(np.sort(values[np.isfinite(values)]), points, side="right")
        found[name] = _Counted(points, below, int(np.isfinite(values).sum()))
    return found
