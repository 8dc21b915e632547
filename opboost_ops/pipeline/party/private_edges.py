"""`opboost edges --private`: bin edges drawn from a party's own table, charged to its ledger.

Edges are drawn once per column, number of cells, epsilon and draw number, and stored: the same
request returns the same edges at no further cost, whatever the table then contains. Only the party
itself can request them: no run, plan or form draws edges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.config.feature import Feature
from opboost_ops.errors import ConfigError, ContractError, PolicyError
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.mechanisms import noise, private_quantiles
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.own_copy import borrowed
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.local_party import SEEDED
from opboost_ops.pipeline.stage import PartyContext
from opboost_ops.privacy import edge_charges
from opboost_ops.privacy.consent.compliance import require_own_columns
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.release_records import Release


@dataclass(frozen=True)
class PrivateEdges:
    """Edges drawn for a column.

    Attributes:
        edges: In the feature's unit, increasing.
        epsilon: The requested epsilon.
        loss: Privacy loss per person, at any distance.
        charged: True for a new draw.
    """

    edges: tuple[float, ...]
    epsilon: float
    loss: float
    charged: bool

    @property
    def scale(self) -> dict[str, object]:
        """Return the feature's ``scale`` for the federation file."""
        return {"edges": list(self.edges), "epsilon": self.epsilon}


@dataclass(frozen=True)
class _Counted:
    """A column as the mechanism's input: the number of values at or below each grid point."""

    points: np.ndarray
    below: np.ndarray
    people: int


def draw_edges(
    context: PartyContext, columns: Mapping[str, int], epsilon: float, number: int = 1
) -> dict[str, PrivateEdges]:
    """Draw the edges of columns; either all are charged or none is drawn.

    Missing values and forgotten people do not count.

    Args:
        context: The party's context outside any run.
        columns: Number of cells by feature.
        epsilon: Epsilon per column, for a person who is added, removed or replaced.
        number: Draw number, from 1; a new number draws, and costs, again.

    Raises:
        ConfigError: A feature takes no edges, a number is out of range, or there are too few
            people.
        ContractError: The table cannot be read, or has a person twice.
        PolicyError: A feature is not in the policy, or two features use one raw column.
        BudgetError: The draws would exceed a budget.
    """
    if not isinstance(epsilon, float | int) or not all(type(n) is int for n in columns.values()):
        raise ConfigError("Private edges need an epsilon, and a whole number of cells per column.")
    require_own_columns(context.policy, context.federation, context.party)
    features = {name: _numeric(context, name) for name in columns}
    for name, cells in columns.items():
        domain = features[name].domain_in(context.federation.domain.to_domain())
        if cells > domain.size:
            raise ConfigError(f"{cells} cells are more than the domain's {domain.size} values.")
        if name not in context.policy.features:
            raise PolicyError(
                f"{name} is not among the features of {context.party}'s policy.",
                "Nothing was drawn. Its owner may add it to policy.yaml.",
            )
    releases = [
        _requested_release(context, name, features[name], n, epsilon, number)
        for name, n in columns.items()
    ]
    with open_state(context.site) as state:
        drawn = _earlier_edges(state, releases)
    new = [release for release in releases if release.feature not in drawn]
    if new:
        with borrowed(context) as lent:
            counted = _counted(
                lent, {release.feature: features[release.feature] for release in new}
            )
        for release in new:
            people = counted[release.feature].people
            _require_enough(release.feature, columns[release.feature], epsilon, people)
        with open_state(context.site) as state, state.transaction():
            drawn = _earlier_edges(state, releases)
            new = [release for release in releases if release.feature not in drawn]
            Budget(context.policy).releases(state.releases.spent(), new)
            for release in new:
                drawn[release.feature] = _draw_and_charge(
                    context, state, release, columns, counted[release.feature]
                )
            if new:
                names = ", ".join(release.feature for release in new)
                detail = f"edges of {names} drawn at epsilon {epsilon:g} each"
                state.audit.add("noted", "ledger", context.party, detail=detail)
    return {name: drawn[name] for name in columns}


def _requested_release(
    context: PartyContext, name: str, feature: Feature, cells: int, epsilon: float, number: int
) -> Release:
    """Return the release record of one draw, without its edges."""
    column = context.policy.raw_column(name, context.federation.id.column).strip()
    return edge_charges.edges_release(
        name,
        column,
        edge_charges.curve(
            cells, epsilon, feature.domain_in(context.federation.domain.to_domain())
        ),
        edge_charges.declaration_of(column, feature, cells, epsilon, number),
        clock.today(),
        context.federation.name,
    )


def _earlier_edges(state: PartyState, releases: Sequence[Release]) -> dict[str, PrivateEdges]:
    """Return edges that were drawn before, by feature."""
    by_declaration = {
        release.declaration: release for release in state.releases.all() if release.kind == "edges"
    }
    return {
        release.feature: _edges_of(by_declaration[release.declaration], new=False)
        for release in releases
        if release.declaration in by_declaration
    }


def _draw_and_charge(
    context: PartyContext,
    state: PartyState,
    requested: Release,
    columns: Mapping[str, int],
    counted: _Counted,
) -> PrivateEdges:
    """Draw and charge one column's edges in the caller's transaction."""
    cells, loss = columns[requested.feature], next(iter(requested.losses.values()))
    secret = context.site.read_secret()
    seeded = secret.startswith(SEEDED)
    words = (
        noise.Words.seeded(secret, f"edges/{requested.declaration}")
        if seeded
        else noise.Words.fresh()
    )
    table = private_quantiles.weights(cells, loss.epsilon)
    places = private_quantiles.draw(counted.below, counted.people, table, cells, words.below)
    edges = [float(counted.points[at]) for at in places]
    release = replace(requested, content=edge_charges.content_of(edges, loss.epsilon))
    with state.database.writing() as connection:
        state.releases.open(connection, release, party=context.party, experiment=seeded)
    return _edges_of(release, new=True)


def _edges_of(release: Release, *, new: bool) -> PrivateEdges:
    loss = next(iter(release.losses.values()))
    edges = edge_charges.edges_in(release)
    return PrivateEdges(edges, loss.epsilon, float(loss.loss[0]), new)


def _require_enough(name: str, cells: int, epsilon: float, people: int) -> None:
    """Refuse, before charging, a draw whose error would exceed a cell's share of people."""
    off, wanted = private_quantiles.people_off(cells, epsilon), people / cells
    if off > wanted:
        raise ConfigError(
            f"At epsilon {epsilon:g} the {cells - 1} edges of {name} would lie {off:,.0f} people "
            f"or more from where they should, and a cell should hold {wanted:,.0f}.",
            "Nothing was drawn. Ask for fewer cells or a larger epsilon, or clear the scale in "
            "bounds.csv for linear cells.",
        )


def _numeric(context: PartyContext, name: str) -> Feature:
    federation, party = context.federation, context.party
    feature = federation.parties[party].features.get(name)
    if feature is None or federation.parties[party].role != "feature_holder":
        names = ", ".join(numeric_features(context)) or "none"
        raise ConfigError(
            f"{party} releases no column {name}.", f"It may draw edges for these: {names}."
        )
    if feature.type != "numeric" or feature.bounds is None:
        raise ConfigError(
            f"{name} is not a number with declared bounds, so it takes no edges.",
            "Declare bounds first: public facts, not read from the data.",
        )
    return feature


def numeric_features(context: PartyContext) -> tuple[str, ...]:
    """Return the party's columns that take edges: numbers with bounds.

    Args:
        context: The party's context.
    """
    features = context.federation.parties[context.party].features
    return tuple(
        name
        for name, feature in features.items()
        if feature.type == "numeric" and feature.bounds is not None
    )


def _counted(context: PartyContext, features: Mapping[str, Feature]) -> dict[str, _Counted]:
    """Count each column's values at or below the grid points; require one row per person."""
    identity = context.federation.id.column
    frame = whole_table(context, [identity, *features])
    ids = frame.get_column(identity)
    if ids.null_count() or ids.is_duplicated().any():
        raise ContractError(
            f"In the table of {context.party} somebody has no ID, or more than one row.",
            "Nothing was drawn. Keep one row per person: the epsilon is for a person.",
        )
    by_name: dict[str, _Counted] = {}
    for name, feature in features.items():
        column = frame.get_column(name)
        values = raw_table.numbers(column, feature)[~raw_table.missing(column)]
        assert feature.bounds is not None
        points = private_quantiles.grid(feature.bounds)
        below = np.searchsorted(np.sort(values[np.isfinite(values)]), points, side="right")
        by_name[name] = _Counted(points, below, int(np.isfinite(values).sum()))
    return by_name
